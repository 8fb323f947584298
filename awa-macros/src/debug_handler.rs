//! `#[debug_handler]`: leaves the function as it is, and writes checks beside it that fail one by one, each at the part of
//! the function that it is about. A handler that is wrong without them fails where it is registered, all in one.
//!
//! Beside mistakes found here no checks are written: they would only repeat them.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{FnArg, GenericArgument, ItemFn, PatType, PathArguments, ReturnType, Type, spanned::Spanned};

use crate::error::Errors;

/// Args and three extractors.
const PARAMETERS_MAX: usize = 4;

pub(crate) fn debug_handler(attributes: &TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    if !attributes.is_empty() {
        errors.at(attributes, "`#[debug_handler]` takes nothing in parentheses");
    }
    let checks = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => checks(&function, &mut errors),
        Err(_) => {
            errors.at(item, "`#[debug_handler]` belongs on an `async fn` that stands by itself");
            TokenStream::new()
        }
    };
    let errors = errors.into_tokens();
    let checks = if errors.is_empty() { checks } else { errors };
    quote!(#item #checks)
}

fn checks(function: &ItemFn, errors: &mut Errors) -> TokenStream {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        errors.at(signature.fn_token, "a handler is an `async fn`");
    }
    if !signature.generics.params.is_empty() {
        errors.at(&signature.generics, "a generic handler cannot be checked: its types are not known here");
    }
    let mut types: Vec<&Type> = Vec::new();
    for parameter in &signature.inputs {
        match parameter {
            FnArg::Typed(PatType { ty, .. }) => types.push(ty),
            FnArg::Receiver(this) => {
                errors.at(this, "a handler cannot be a method; take what it needs as `Data<T>`, or implement `Worker`");
            }
        }
    }
    if signature.inputs.is_empty() {
        errors.at(&signature.ident, "a handler takes its args first: a type with `#[derive(JobArgs)]`");
    }
    if let Some(first) = types.first().filter(|first| is_extractor(first)) {
        errors.at(first, "a handler takes its args first, a type with `#[derive(JobArgs)]`, and this after them");
    }
    if let Some(beyond) = signature.inputs.iter().nth(PARAMETERS_MAX) {
        errors.at(beyond, "a handler takes its args and up to three things after them");
    }
    let ReturnType::Type(_, returned) = &signature.output else {
        let message =
            "a handler returns `Result<R, E>`: `R` the output of the args or an `Outcome` of it, `E` any error";
        errors.at(&signature.ident, message);
        return TokenStream::new();
    };
    match types.split_first() {
        Some((args, extractors)) => write(function, args, extractors, returned),
        None => TokenStream::new(),
    }
}

/// Whether it is one of Awa's own extractors, going by the name.
fn is_extractor(parameter: &Type) -> bool {
    let Type::Path(path) = parameter else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) if last.ident == "Option" => {
            arguments.args.iter().any(|one| matches!(one, GenericArgument::Type(inner) if is_extractor(inner)))
        }
        _ => last.ident == "JobContext" || last.ident == "Data",
    }
}

fn write(function: &ItemFn, args: &Type, extractors: &[&Type], returned: &Type) -> TokenStream {
    let name = &function.sig.ident;
    // What is no args has no output either: the check of the result goes on from here, so that this is said once.
    let output = quote!(output);
    let check_args = quote_spanned!(args.span()=> let #output = ::awa_worker::__private::handler::args::<#args>(););
    let check_extractors = extractors
        .iter()
        .map(|one| quote_spanned!(one.span()=> ::awa_worker::__private::handler::extractor::<#one>();));
    let check_returned = quote_spanned! {returned.span()=>
        ::awa_worker::__private::handler::result::<#returned>();
        #output.ok::<#returned>();
        ::awa_worker::__private::handler::error::<#returned>();
    };
    let values = (0..=extractors.len()).map(|_| quote!(::awa_worker::__private::handler::any()));
    let check_sent = quote_spanned!(name.span()=> ::awa_worker::__private::handler::sent(#name(#(#values),*)););
    quote! {
        #[allow(warnings, clippy::all, clippy::pedantic)]
        const _: () = {
            fn check() {
                #check_args
                #(#check_extractors)*
                #check_returned
                #check_sent
            }
        };
    }
}
