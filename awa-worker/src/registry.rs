//! Which handler runs which kind, and the values that handlers share.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use awa_model::{JobArgs, Kind, RetryPolicy};

use crate::config::{Mistake, TIMEOUT};
use crate::handler::{Erased, ErasedHandler, Handler, Requirement};
use crate::kind_limit::KindLimit;

/// The values given with `data`, by type.
#[derive(Default, Clone)]
pub(crate) struct SharedData {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl SharedData {
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.values.get(&TypeId::of::<T>()).and_then(|value| Arc::clone(value).downcast().ok())
    }
}

/// A handler and what was chosen at its registration.
pub(crate) struct Registered {
    pub(crate) handler: Arc<dyn ErasedHandler>,
    pub(crate) retry_policy: Option<RetryPolicy>,
    /// How many run at once, if the kind says.
    pub(crate) limit: Option<KindLimit>,
}

/// All handlers of a client; complete when the client is built, and never changed afterwards.
#[derive(Default)]
pub(crate) struct Registry {
    /// One entry for each kind and alias; those of one handler share it.
    handlers: HashMap<Kind, Arc<Registered>>,
    needs: Vec<(&'static str, Requirement)>,
    data: SharedData,
    mistakes: Vec<Mistake>,
}

impl Registry {
    pub(crate) fn register<H, Marker: 'static>(&mut self, handler: H)
    where
        H: Handler<Marker>,
    {
        let name = <H::Args as JobArgs>::KIND;
        let retry_policy = handler.retry_policy();
        let max_workers = handler.max_workers();
        if max_workers == Some(0) {
            self.mistakes.push(Mistake::NoWorkersOfKind { kind: name });
        }
        if let Some(timeout) = handler.chosen_timeout().filter(|timeout| !TIMEOUT.contains(timeout)) {
            self.mistakes.push(Mistake::HandlerTimeout { kind: name, timeout });
        }
        let limit = max_workers.map(KindLimit::new);
        let registered = Arc::new(Registered { handler: Arc::new(Erased::new(handler)), retry_policy, limit });
        self.needs.extend(H::requires().into_iter().map(|requirement| (name, requirement)));
        self.serve(name, &registered);
        for alias in <H::Args as JobArgs>::ALIASES {
            self.serve(alias, &registered);
        }
    }

    fn serve(&mut self, name: &'static str, registered: &Arc<Registered>) {
        let kind = match Kind::new(name) {
            Ok(kind) => kind,
            Err(reason) => return self.mistakes.push(Mistake::InvalidKind { kind: name, reason }),
        };
        if self.handlers.insert(kind, Arc::clone(registered)).is_some() {
            self.mistakes.push(Mistake::KindTwice { kind: name });
        }
    }

    pub(crate) fn share<T: Send + Sync + 'static>(&mut self, value: T) {
        if self.data.values.insert(TypeId::of::<T>(), Arc::new(value)).is_some() {
            self.mistakes.push(Mistake::DataTwice { data: type_name::<T>() });
        }
    }

    /// Everything that is wrong with the handlers and their values, each thing once.
    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = self.mistakes.clone();
        for (kind, requirement) in &self.needs {
            let missing = Mistake::MissingData { kind, data: requirement.name };
            if !self.data.values.contains_key(&requirement.id) && !mistakes.contains(&missing) {
                mistakes.push(missing);
            }
        }
        mistakes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// The kinds with a handler, aliases included, in order.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<_> = self.handlers.keys().cloned().collect();
        kinds.sort();
        kinds
    }

    pub(crate) fn get(&self, kind: &Kind) -> Option<&Registered> {
        self.handlers.get(kind).map(Arc::as_ref)
    }

    pub(crate) fn data(&self) -> &SharedData {
        &self.data
    }
}
