//! Writes the impls. The emitted code names these items at the root of the facade (`::awa_worker`, or what `crate = "…"`
//! says) and needs nothing else from it:
//!
//! `JobArgs`, `IntoNewJob`, `NewJob`, `Unique`, `UniqueStates`, `JobState`, `OnConflict`
//!
//! All of them are awa-model's, so `awa_model` serves as well. Everything else comes from `::core`.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, LitStr, Path, Type, ext::IdentExt, parse_quote};

use crate::{
    case,
    error::Errors,
    fields::Fields,
    parse::{self, Items},
    unique, validate,
};

/// The impls for `input`, and an error for each mistake in its attributes.
pub(crate) fn derive_job_args(input: &DeriveInput) -> TokenStream {
    let mut errors = Errors::default();
    let items = parse::items(input, &mut errors);
    refuse_attributes_on_fields(input, &mut errors);
    let fits = refuse_unfit_types(input, &mut errors);
    let has_place = !items.has_bad_crate_path;
    let impls = impls(input, &items, &mut errors);
    let mut tokens = errors.into_tokens();
    if fits && has_place {
        // Also beside errors: that the type is no `JobArgs` would only be noise on top of them.
        tokens.extend(impls);
    }
    tokens
}

fn impls(input: &DeriveInput, items: &Items, errors: &mut Errors) -> TokenStream {
    let ident = &input.ident;
    let krate: Path = items.crate_path.clone().unwrap_or_else(|| parse_quote!(::awa_worker));
    let output: Type = items.output.clone().unwrap_or_else(|| parse_quote!(()));
    let kind = kind(input, items.kind.as_ref(), errors);
    let constants = constants(items, errors);
    let lists = lists(items, &kind, errors);
    let unique = items.unique.as_ref().map(|unique| {
        let rule = unique::rule(unique, &Fields::of(input), &krate, errors);
        quote! {
            fn unique() -> ::core::option::Option<#krate::Unique> {
                ::core::option::Option::Some(#rule)
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #krate::JobArgs for #ident {
            const KIND: &'static str = #kind;
            type Output = #output;
            #constants
            #lists
            #unique
        }

        #[automatically_derived]
        impl #krate::IntoNewJob for #ident {
            type Args = Self;

            fn into_new_job(self) -> #krate::NewJob<Self> {
                #krate::NewJob::new(&self)
            }
        }
    }
}

fn kind(input: &DeriveInput, given: Option<&LitStr>, errors: &mut Errors) -> String {
    if let Some(kind) = given.and_then(|given| validate::name("kind", given, errors)) {
        return kind;
    }
    let kind = case::snake_case(&input.ident.unraw().to_string());
    if given.is_none() && kind.len() > validate::NAME_BYTES_MAX {
        let message = "the name is too long for a kind (128 bytes); give one with `#[job(kind = \"…\")]`";
        errors.at(&input.ident, message);
    }
    kind
}

/// The constants that differ from the defaults of the trait.
fn constants(items: &Items, errors: &mut Errors) -> TokenStream {
    let mut tokens = TokenStream::new();
    if let Some(queue) = items.queue.as_ref().and_then(|queue| validate::name("queue", queue, errors)) {
        tokens.extend(quote!(const QUEUE: &'static str = #queue;));
    }
    let priority = items.priority.as_ref();
    if let Some(priority) = priority.and_then(|one| validate::number("priority", one, &validate::PRIORITIES, errors)) {
        tokens.extend(quote!(const PRIORITY: i16 = #priority;));
    }
    let attempts = items.max_attempts.as_ref();
    if let Some(attempts) =
        attempts.and_then(|one| validate::number("max_attempts", one, &validate::MAX_ATTEMPTS, errors))
    {
        tokens.extend(quote!(const MAX_ATTEMPTS: i16 = #attempts;));
    }
    let timeout = items.timeout.as_ref();
    let shortest = Duration::from_millis(1);
    if let Some(timeout) = timeout.and_then(|one| validate::duration("timeout", one, shortest, errors)) {
        let timeout = unique::duration_tokens(timeout);
        tokens.extend(quote! {
            const TIMEOUT: ::core::option::Option<::core::time::Duration> = ::core::option::Option::Some(#timeout);
        });
    }
    tokens
}

/// Other kinds and the tags, where there are some.
fn lists(items: &Items, kind: &str, errors: &mut Errors) -> TokenStream {
    let mut tokens = TokenStream::new();
    if let Some(given) = &items.aliases {
        let aliases = validate::names("alias", given, errors);
        if let Some(same) = given.iter().find(|alias| alias.value() == kind) {
            errors.at(same, "this is the kind itself; an alias is another one");
        }
        tokens.extend(quote!(const ALIASES: &'static [&'static str] = &[#(#aliases),*];));
    }
    if let Some(given) = &items.tags {
        let tags = validate::names("tag", given, errors);
        if let Some(first) = given.get(validate::TAGS_MAX) {
            errors.at(first, format_args!("a job may have up to {} tags", validate::TAGS_MAX));
        }
        tokens.extend(quote!(const TAGS: &'static [&'static str] = &[#(#tags),*];));
    }
    tokens
}

/// Whether the type can be the args of a job at all.
fn refuse_unfit_types(input: &DeriveInput, errors: &mut Errors) -> bool {
    if let Data::Union(data) = &input.data {
        errors.at(data.union_token, "a union cannot be the args of a job: it cannot be written as JSON");
        return false;
    }
    if !input.generics.params.is_empty() {
        let message = "the args of a job cannot be generic: its kind is the name of one type. Derive JobArgs for a type \
                       that wraps a concrete one, and own what is borrowed";
        errors.at(&input.generics, message);
        return false;
    }
    true
}

fn refuse_attributes_on_fields(input: &DeriveInput, errors: &mut Errors) {
    let fields: Vec<&syn::Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let variants = match &input.data {
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.attrs).collect(),
        Data::Struct(_) | Data::Union(_) => Vec::new(),
    };
    let on_fields = fields.into_iter().flat_map(|field| &field.attrs);
    for attribute in on_fields.chain(variants).filter(|attribute| parse::is_job(attribute)) {
        errors.at(attribute, "`#[job(…)]` belongs on the type, not on its parts");
    }
}
