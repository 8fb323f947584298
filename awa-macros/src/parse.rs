//! Reads `#[job(…)]` into its parts. What a value may be is checked in `validate`; here it is only about the form. A
//! mistake costs the item that it is in, never those after it.

use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::{
    Attribute, DeriveInput, Ident, LitInt, LitStr, Meta, Path, Token, Type,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream, Parser},
    token,
};

use crate::{
    error::Errors,
    unique::{self, UniqueItem},
};

/// The items of all `#[job(…)]` on a type, as they were written.
#[derive(Default)]
pub(crate) struct Items {
    pub(crate) kind: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) priority: Option<LitInt>,
    pub(crate) max_attempts: Option<LitInt>,
    pub(crate) timeout: Option<LitStr>,
    pub(crate) unique: Option<Vec<UniqueItem>>,
    pub(crate) output: Option<Type>,
    pub(crate) aliases: Option<Vec<LitStr>>,
    pub(crate) tags: Option<Vec<LitStr>>,
    pub(crate) crate_path: Option<Path>,
    /// The path could not be read, so nothing that names it should be emitted.
    pub(crate) has_bad_crate_path: bool,
}

const KEYS: &str = "kind, queue, priority, max_attempts, timeout, unique, output, aliases, tags and crate";

/// Reads the attributes of `input`; those on its fields are mistakes.
pub(crate) fn items(input: &DeriveInput, errors: &mut Errors) -> Items {
    let mut items = Items::default();
    for attribute in input.attrs.iter().filter(|attribute| is_job(attribute)) {
        match &attribute.meta {
            Meta::List(list) => {
                let parser = |input: ParseStream<'_>| {
                    list_of(input, errors, |input, errors| items.read(input, errors));
                    Ok(())
                };
                if let Err(error) = parser.parse2(list.tokens.clone()) {
                    errors.push(error);
                }
            }
            Meta::Path(_) | Meta::NameValue(_) => {
                errors.at(attribute, "write `#[job(key = value, …)]`, or leave the attribute out");
            }
        }
    }
    items
}

pub(crate) fn is_job(attribute: &Attribute) -> bool {
    attribute.path().is_ident("job")
}

/// Reads items between commas. An item that cannot be read is noted and skipped.
pub(crate) fn list_of(
    input: ParseStream<'_>,
    errors: &mut Errors,
    mut read: impl FnMut(ParseStream<'_>, &mut Errors) -> syn::Result<()>,
) {
    while !input.is_empty() {
        if let Err(error) = read(input, errors) {
            errors.push(error);
            skip_item(input);
        }
        if input.is_empty() {
            return;
        }
        if let Err(error) = input.parse::<Token![,]>() {
            errors.push(error);
            skip_item(input);
            // The comma, if there is one.
            let _ = input.parse::<Token![,]>();
        }
    }
}

/// Reads a list in parentheses.
pub(crate) fn list<T>(
    input: ParseStream<'_>,
    errors: &mut Errors,
    one: impl Fn(ParseStream<'_>) -> syn::Result<T>,
) -> syn::Result<Vec<T>> {
    let inside;
    parenthesized!(inside in input);
    let mut all = Vec::new();
    list_of(&inside, errors, |inside, _| {
        all.push(one(inside)?);
        Ok(())
    });
    Ok(all)
}

/// Strings in parentheses after a key.
fn texts(input: ParseStream<'_>, key: &Ident, example: &str, errors: &mut Errors) -> syn::Result<Vec<LitStr>> {
    if !input.peek(token::Paren) {
        return Err(syn::Error::new_spanned(key, format_args!("write `{key}({example}, …)`")));
    }
    list(input, errors, |input| {
        let place = input.span();
        input.parse().map_err(|_| syn::Error::new(place, format_args!("expected a string like {example}")))
    })
}

fn skip_item(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

impl Items {
    fn read(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<()> {
        let key = key(input, KEYS)?;
        match key.to_string().as_str() {
            "kind" => set(&mut self.kind, &key, text(input, &key, "a string like \"resize_image\"")?),
            "queue" => set(&mut self.queue, &key, text(input, &key, "a string like \"images\"")?),
            "priority" => set(&mut self.priority, &key, number(input, &key, "a number from 1 (first) to 4 (last)")?),
            "max_attempts" => set(&mut self.max_attempts, &key, number(input, &key, "a number from 1 to 1000")?),
            "timeout" => set(&mut self.timeout, &key, text(input, &key, "a string like \"2m\" or \"1h30m\"")?),
            "output" => set(&mut self.output, &key, value(input, &key, "a type like `Thumbnail`")?),
            "unique" => set(&mut self.unique, &key, unique::items(input, errors)?),
            "aliases" => set(&mut self.aliases, &key, texts(input, &key, "\"old_kind\"", errors)?),
            "tags" => set(&mut self.tags, &key, texts(input, &key, "\"billing\"", errors)?),
            "crate" => {
                let path = crate_path(input, &key);
                self.has_bad_crate_path |= path.is_err();
                set(&mut self.crate_path, &key, path?)
            }
            _ => Err(unknown(&key, KEYS)),
        }
    }
}

/// The word that an item begins with.
pub(crate) fn key(input: ParseStream<'_>, keys: &str) -> syn::Result<Ident> {
    let place = input.span();
    input.call(Ident::parse_any).map_err(|_| syn::Error::new(place, format_args!("expected one of {keys}")))
}

pub(crate) fn unknown(key: &Ident, keys: &str) -> syn::Error {
    syn::Error::new_spanned(key, format_args!("`{key}` is not known here; the keys are {keys}"))
}

/// Keeps the value of a key unless it has one.
pub(crate) fn set<T>(slot: &mut Option<T>, key: &Ident, value: T) -> syn::Result<()> {
    if slot.is_some() {
        return Err(syn::Error::new_spanned(key, format_args!("`{key}` is given twice")));
    }
    *slot = Some(value);
    Ok(())
}

/// `= "…"` after a key.
pub(crate) fn text(input: ParseStream<'_>, key: &Ident, form: &str) -> syn::Result<LitStr> {
    value(input, key, form)
}

fn number(input: ParseStream<'_>, key: &Ident, form: &str) -> syn::Result<LitInt> {
    value(input, key, form)
}

fn value<T: Parse>(input: ParseStream<'_>, key: &Ident, form: &str) -> syn::Result<T> {
    let needed =
        |tokens: &dyn ToTokens| syn::Error::new_spanned(tokens, format_args!("`{key}` needs {form}: `{key} = …`"));
    if input.parse::<Token![=]>().is_err() || input.is_empty() || input.peek(Token![,]) {
        return Err(needed(key));
    }
    let found: Option<TokenTree> = input.fork().parse().ok();
    input.parse().map_err(|_| match &found {
        Some(found) => syn::Error::new_spanned(found, format_args!("`{key}` must be {form}")),
        None => needed(key),
    })
}

fn crate_path(input: ParseStream<'_>, key: &Ident) -> syn::Result<Path> {
    let form = "a path in quotes like \"my_facade::awa\"";
    let text = text(input, key, form)?;
    let path = text.parse_with(Path::parse_mod_style);
    path.map_err(|_| syn::Error::new_spanned(&text, format_args!("`crate` must be {form}")))
}
