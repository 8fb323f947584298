//! The inside of `unique(…)`: read, checked for contradictions, and turned into a rule.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Ident, LitStr, Path, Token, ext::IdentExt, parenthesized, parse::ParseStream, token};

use crate::{
    error::Errors,
    fields::Fields,
    parse::{key, list, list_of, text, unknown},
    validate,
};

const KEYS: &str = "args, no_args, queue, period, while_waiting, states and on_conflict";

const STATES: [&str; 8] =
    ["scheduled", "available", "running", "waiting_external", "retryable", "completed", "failed", "cancelled"];

const POLICIES: [&str; 3] = ["skip", "replace", "error"];

/// Longest and shortest period, and the number of fields; the same as in awa-model's limits.
pub(crate) const PERIOD_MIN: Duration = Duration::from_secs(1);
pub(crate) const FIELDS_MAX: usize = 32;

/// One item inside `unique(…)`: its key and what came with it.
pub(crate) struct UniqueItem {
    key: Ident,
    value: Value,
}

enum Value {
    Args,
    Fields(Vec<Field>),
    NoArgs,
    Queue,
    Period(LitStr),
    WhileWaiting,
    States(Vec<Ident>),
    OnConflict(LitStr),
}

/// A field to compare: of the type, or as it is named in JSON.
pub(crate) enum Field {
    Ident(Ident),
    Json(LitStr),
}

/// Reads what follows the key `unique`: nothing, or items in parentheses.
pub(crate) fn items(input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<Vec<UniqueItem>> {
    let mut items: Vec<UniqueItem> = Vec::new();
    if input.peek(token::Paren) {
        let inside;
        parenthesized!(inside in input);
        list_of(&inside, errors, |inside, errors| {
            let item = item(inside, errors)?;
            if items.iter().any(|other| other.key == item.key) {
                let key = &item.key;
                return Err(syn::Error::new_spanned(key, format_args!("`{key}` is given twice")));
            }
            items.push(item);
            Ok(())
        });
    } else if input.peek(Token![=]) {
        let message = format!("write `unique`, or `unique(…)` with some of {KEYS}");
        return Err(syn::Error::new(input.span(), message));
    }
    Ok(items)
}

fn item(input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<UniqueItem> {
    let key = key(input, KEYS)?;
    let value = match key.to_string().as_str() {
        "args" if input.peek(token::Paren) => Value::Fields(list(input, errors, field)?),
        "args" => Value::Args,
        "no_args" => Value::NoArgs,
        "queue" => Value::Queue,
        "period" => Value::Period(text(input, &key, "a string like \"1h\"")?),
        "while_waiting" => Value::WhileWaiting,
        "on_conflict" => Value::OnConflict(text(input, &key, "a string: \"skip\", \"replace\" or \"error\"")?),
        "states" if input.peek(token::Paren) => Value::States(list(input, errors, state)?),
        "states" => {
            return Err(syn::Error::new_spanned(&key, "write `states(…)` with the states inside"));
        }
        _ => return Err(unknown(&key, KEYS)),
    };
    Ok(UniqueItem { key, value })
}

fn field(input: ParseStream<'_>) -> syn::Result<Field> {
    if input.peek(LitStr) {
        return input.parse().map(Field::Json);
    }
    let message = "expected a field, or its name in JSON as a string";
    let place = input.span();
    input.call(Ident::parse_any).map(Field::Ident).map_err(|_| syn::Error::new(place, message))
}

fn state(input: ParseStream<'_>) -> syn::Result<Ident> {
    let allowed = STATES.join(", ");
    let place = input.span();
    let state =
        input.call(Ident::parse_any).map_err(|_| syn::Error::new(place, format_args!("expected one of {allowed}")))?;
    if STATES.contains(&state.to_string().as_str()) {
        return Ok(state);
    }
    Err(syn::Error::new_spanned(&state, format_args!("`{state}` is not a state; the states are {allowed}")))
}

/// Code that builds the rule. Contradictions and impossible values are noted.
pub(crate) fn rule(items: &[UniqueItem], fields: &Fields<'_>, krate: &Path, errors: &mut Errors) -> TokenStream {
    refuse_contradictions(items, errors);
    let period = items.iter().find_map(|item| match &item.value {
        Value::Period(period) => validate::duration("period", period, PERIOD_MIN, errors),
        _ => None,
    });
    let mut rule = match period.map(duration_tokens) {
        Some(period) => quote!(#krate::Unique::within(#period)),
        None => quote!(#krate::Unique::until_finished()),
    };
    for UniqueItem { key, value } in items {
        let change = match value {
            Value::Args | Value::Period(_) => continue,
            Value::NoArgs => quote!(.ignore_args()),
            Value::Queue => quote!(.per_queue()),
            Value::WhileWaiting => quote!(.states(#krate::UniqueStates::WAITING)),
            Value::States(states) => states_tokens(key, states, krate, errors),
            Value::OnConflict(policy) => policy_tokens(policy, krate, errors),
            Value::Fields(wanted) => {
                let names = field_names(key, wanted, fields, errors);
                if names.is_empty() {
                    // Noted already; an empty array would only add a riddle about its type.
                    continue;
                }
                quote!(.fields([#(#names),*]))
            }
        };
        rule.extend(change);
    }
    rule
}

fn refuse_contradictions(items: &[UniqueItem], errors: &mut Errors) {
    let find = |name: &str| items.iter().find(|item| item.key == name);
    if let (Some(_), Some(no_args)) = (find("args"), find("no_args")) {
        errors.at(&no_args.key, "`no_args` contradicts `args`: give one of them");
    }
    if let (Some(_), Some(states)) = (find("while_waiting"), find("states")) {
        errors.at(&states.key, "`states` contradicts `while_waiting`: give one of them");
    }
}

fn states_tokens(key: &Ident, states: &[Ident], krate: &Path, errors: &mut Errors) -> TokenStream {
    if states.is_empty() {
        errors.at(key, "`states` needs at least one state");
    }
    let has = |wanted: &str| states.iter().any(|state| state == wanted);
    if has("running") && !has("available") {
        errors.at(key, "`states` needs available where it has running: a claim takes no keys");
    }
    let variants = states.iter().map(|state| Ident::new(&camel_case(&state.to_string()), Span::call_site()));
    quote!(.states(#krate::UniqueStates::of(&[#(#krate::JobState::#variants),*])))
}

fn policy_tokens(policy: &LitStr, krate: &Path, errors: &mut Errors) -> TokenStream {
    let name = policy.value();
    if !POLICIES.contains(&name.as_str()) {
        errors.at(policy, "`on_conflict` must be \"skip\", \"replace\" or \"error\"");
        return TokenStream::new();
    }
    let variant = Ident::new(&camel_case(&name), Span::call_site());
    quote!(.on_conflict(#krate::OnConflict::#variant))
}

fn field_names(key: &Ident, wanted: &[Field], fields: &Fields<'_>, errors: &mut Errors) -> Vec<String> {
    if !(1..=FIELDS_MAX).contains(&wanted.len()) {
        errors.at(key, format_args!("`args(…)` needs 1 to {FIELDS_MAX} fields; `no_args` compares none"));
    }
    wanted.iter().filter_map(|field| fields.json_name(field, errors)).collect()
}

fn camel_case(snake: &str) -> String {
    snake
        .split('_')
        .flat_map(|word| {
            word.chars().enumerate().map(|(index, one)| if index == 0 { one.to_ascii_uppercase() } else { one })
        })
        .collect()
}

/// Code for a duration.
pub(crate) fn duration_tokens(duration: Duration) -> TokenStream {
    // Durations come from `duration::parse`, which counts milliseconds in 64 bits.
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    quote!(::core::time::Duration::from_millis(#milliseconds))
}
