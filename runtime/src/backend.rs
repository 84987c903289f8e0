//! What a session's loops, operators and DDSs ask of what runs them: this process, or worker processes.
//!
//! Each floor states its own part beside what it runs; here is the whole of it. Nobody above this floor names it.

use std::sync::Arc;

use crate::loops::backend::LoopBackend;
use crate::minibatch::MinibatchBackend;
use crate::operate::run::OperatorBackend;
use crate::scheduled::backend::ScheduledBackend;
use crate::session::backend::{ElementBackend, Roles};

pub(crate) trait Backend:
    ElementBackend + LoopBackend + MinibatchBackend + OperatorBackend + ScheduledBackend
{
}

impl<B: ElementBackend + LoopBackend + MinibatchBackend + OperatorBackend + ScheduledBackend> Backend for B {}

/// A backend as each floor asks for it.
pub(crate) fn roles(backend: Arc<dyn Backend>) -> Roles {
    Roles::default()
        .with::<dyn ElementBackend>(Arc::clone(&backend) as _)
        .with::<dyn LoopBackend>(Arc::clone(&backend) as _)
        .with::<dyn MinibatchBackend>(Arc::clone(&backend) as _)
        .with::<dyn OperatorBackend>(Arc::clone(&backend) as _)
        .with::<dyn ScheduledBackend>(backend)
}
