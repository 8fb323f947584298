//! The strict serializer's methods: check what needs checking, hand everything on.

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::{Context, Step, Strict, What};

/// An array or object that is being written.
pub(super) struct Compound<'f, C> {
    inner: C,
    /// Of what is inside it.
    context: Context<'f>,
    /// Index of the next element; arrays only.
    index: usize,
    /// The variant that the array or object belongs to, where there is one.
    variant: Option<&'static str>,
}

impl<'f, S> Strict<'f, S> {
    fn compound<C, E: serde::ser::Error>(
        self,
        variant: Option<&'static str>,
        begin: impl FnOnce(S) -> Result<C, E>,
    ) -> Result<Compound<'f, C>, E> {
        let mut context = self.context.enter()?;
        if variant.is_some() {
            // `{"Variant": …}` is a level of its own.
            context = context.enter()?;
        }
        Ok(Compound { inner: begin(self.inner)?, context, index: 0, variant })
    }
}

macro_rules! hand_on {
    ($($method:ident($($name:ident: $Type:ty),*);)*) => {
        $(fn $method(self $(, $name: $Type)*) -> Result<S::Ok, S::Error> {
            self.inner.$method($($name),*)
        })*
    };
}

impl<'f, S: Serializer> Serializer for Strict<'f, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Compound<'f, S::SerializeSeq>;
    type SerializeTuple = Compound<'f, S::SerializeTuple>;
    type SerializeTupleStruct = Compound<'f, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Compound<'f, S::SerializeTupleVariant>;
    type SerializeMap = Compound<'f, S::SerializeMap>;
    type SerializeStruct = Compound<'f, S::SerializeStruct>;
    type SerializeStructVariant = Compound<'f, S::SerializeStructVariant>;

    hand_on! {
        serialize_bool(value: bool);
        serialize_i8(value: i8);
        serialize_i16(value: i16);
        serialize_i32(value: i32);
        serialize_i64(value: i64);
        serialize_i128(value: i128);
        serialize_u8(value: u8);
        serialize_u16(value: u16);
        serialize_u32(value: u32);
        serialize_u64(value: u64);
        serialize_u128(value: u128);
        serialize_bytes(value: &[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(name: &'static str);
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str);
    }

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        if value.is_finite() { self.inner.serialize_f32(value) } else { self.context.refuse(What::NotFinite) }
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        if value.is_finite() { self.inner.serialize_f64(value) } else { self.context.refuse(What::NotFinite) }
    }

    fn serialize_char(self, value: char) -> Result<S::Ok, S::Error> {
        if value == '\0' { self.context.refuse(What::Nul) } else { self.inner.serialize_char(value) }
    }

    fn serialize_str(self, value: &str) -> Result<S::Ok, S::Error> {
        self.context.check_text(value)?;
        self.inner.serialize_str(value)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.serialize_some(&self.context.wrap(value))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.serialize_newtype_struct(name, &self.context.wrap(value))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let context = self.context.enter()?;
        let written = self.inner.serialize_newtype_variant(name, index, variant, &context.wrap(value));
        context.at(|| Step::Key(variant.to_owned()), written)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        self.compound(None, |inner| inner.serialize_seq(len))
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        self.compound(None, |inner| inner.serialize_tuple(len))
    }

    fn serialize_tuple_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeTupleStruct, S::Error> {
        self.compound(None, |inner| inner.serialize_tuple_struct(name, len))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        self.compound(Some(variant), |inner| inner.serialize_tuple_variant(name, index, variant, len))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        self.compound(None, |inner| inner.serialize_map(len))
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeStruct, S::Error> {
        self.compound(None, |inner| inner.serialize_struct(name, len))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.compound(Some(variant), |inner| inner.serialize_struct_variant(name, index, variant, len))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

impl<C> Compound<'_, C> {
    /// Notes a step, and the variant around it, if `result` is an error.
    fn at<T, E>(&self, step: impl FnOnce() -> Step, result: Result<T, E>) -> Result<T, E> {
        let result = self.context.at(step, result);
        match self.variant {
            Some(variant) => self.context.at(|| Step::Key(variant.to_owned()), result),
            None => result,
        }
    }
}

macro_rules! array {
    ($($Trait:ident: $method:ident;)*) => {
        $(impl<C: $Trait> $Trait for Compound<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                let index = self.index;
                self.index += 1;
                let written = self.inner.$method(&self.context.wrap(value));
                self.at(|| Step::Index(index), written)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        })*
    };
}

array! {
    SerializeSeq: serialize_element;
    SerializeTuple: serialize_element;
    SerializeTupleStruct: serialize_field;
    SerializeTupleVariant: serialize_field;
}

macro_rules! object {
    ($($Trait:ident;)*) => {
        $(impl<C: $Trait> $Trait for Compound<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), C::Error> {
                let written = self.inner.serialize_field(key, &self.context.wrap(value));
                self.at(|| Step::Key(key.to_owned()), written)
            }

            fn skip_field(&mut self, key: &'static str) -> Result<(), C::Error> {
                self.inner.skip_field(key)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        })*
    };
}

object! {
    SerializeStruct;
    SerializeStructVariant;
}

impl<C: SerializeMap> SerializeMap for Compound<'_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_entry<K, V>(&mut self, key: &K, value: &V) -> Result<(), C::Error>
    where
        K: Serialize + ?Sized,
        V: Serialize + ?Sized,
    {
        let written = self.inner.serialize_entry(&self.context.wrap(key), &self.context.wrap(value));
        self.at(|| Step::Key(key_text(key)), written)
    }

    // Only hand-written impls give key and value apart; their paths do without the key.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), C::Error> {
        self.inner.serialize_key(&self.context.wrap(key))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        self.inner.serialize_value(&self.context.wrap(value))
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

fn key_text<K: Serialize + ?Sized>(key: &K) -> String {
    match serde_json::to_value(key) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => "?".to_owned(),
    }
}
