//! The fields of the args as `unique(args(…))` may name them. A name that no args ever have would make duplicates of all
//! jobs, so a wrong one is refused here, and where serde renames a field its name in JSON has to be written out.

use syn::{Attribute, Data, DeriveInput, Ident, Meta};

use crate::{error::Errors, unique::Field, validate};

/// What is known of the fields.
pub(crate) struct Fields<'a> {
    /// `None` where there are none with names.
    named: Option<Vec<&'a syn::Field>>,
    /// Whether an attribute of the type changes how all of them are written.
    are_renamed: bool,
}

impl<'a> Fields<'a> {
    /// The named fields of `input`, if it is a struct that has such.
    pub(crate) fn of(input: &'a DeriveInput) -> Self {
        let named = match &input.data {
            Data::Struct(data) => match &data.fields {
                syn::Fields::Named(named) => Some(named.named.iter().collect()),
                syn::Fields::Unnamed(_) | syn::Fields::Unit => None,
            },
            Data::Enum(_) | Data::Union(_) => None,
        };
        Self { named, are_renamed: input.attrs.iter().any(changes_names) }
    }

    /// The name that `wanted` has in JSON; `None`, and a note, if that cannot be known.
    pub(crate) fn json_name(&self, wanted: &Field, errors: &mut Errors) -> Option<String> {
        match wanted {
            Field::Json(name) => validate::name("field", name, errors),
            Field::Ident(ident) => match self.check(ident) {
                Ok(()) => Some(plain(ident)),
                Err(message) => {
                    errors.at(ident, message);
                    None
                }
            },
        }
    }

    fn check(&self, ident: &Ident) -> Result<(), String> {
        let Some(fields) = &self.named else {
            return Err(format!(
                "the type has no named fields; write the name in JSON as a string: \"{}\"",
                plain(ident)
            ));
        };
        let Some(field) = fields.iter().find(|field| field.ident.as_ref() == Some(ident)) else {
            let names: Vec<String> = fields.iter().filter_map(|field| field.ident.as_ref()).map(plain).collect();
            return Err(format!("there is no field `{ident}`; the fields are {}", names.join(", ")));
        };
        if self.are_renamed || field.attrs.iter().any(changes_names) {
            return Err(format!("serde changes how `{ident}` is written; write its name in JSON as a string"));
        }
        Ok(())
    }
}

fn plain(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

/// Whether a serde attribute makes a field appear under another name, inside another field, or not at all.
fn changes_names(attribute: &Attribute) -> bool {
    const CHANGES: [&str; 7] = ["flatten", "into", "rename", "rename_all", "skip", "skip_serializing", "transparent"];
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("serde")
        && list.tokens.clone().into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(ident) => CHANGES.contains(&ident.to_string().as_str()),
            _ => false,
        })
}
