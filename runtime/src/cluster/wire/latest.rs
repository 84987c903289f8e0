//! A value that others wait for. Unlike `tokio::sync::watch`, it wakes who waits in the order in which they came, and not in one of
//! chance: a simulation is to go the same way each time.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::session::locked;

pub(crate) struct Latest<T>(Arc<Inner<T>>);

struct Inner<T> {
    value: Mutex<T>,
    news: Notify,
}

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Latest(Arc::clone(&self.0))
    }
}

impl<T: Clone> Latest<T> {
    pub(crate) fn new(value: T) -> Latest<T> {
        Latest(Arc::new(Inner { value: Mutex::new(value), news: Notify::new() }))
    }

    pub(crate) fn get(&self) -> T {
        locked(&self.0.value).clone()
    }

    pub(crate) fn set(&self, value: T) {
        // What was there may have something to do when it goes.
        let _before = std::mem::replace(&mut *locked(&self.0.value), value);
        self.0.news.notify_waiters();
    }

    pub(crate) fn change(&self, f: impl FnOnce(&mut T)) {
        f(&mut locked(&self.0.value));
        self.0.news.notify_waiters();
    }

    /// Waits until something can be made of it.
    pub(crate) async fn wait<R>(&self, mut make: impl FnMut(&T) -> Option<R>) -> R {
        loop {
            let mut news = std::pin::pin!(self.0.news.notified());
            // Before the look: what comes right after it counts.
            news.as_mut().enable();
            if let Some(made) = make(&locked(&self.0.value)) {
                return made;
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken_in_turn_and_misses_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (latest, order) = (Latest::new(0), Arc::new(Mutex::new(Vec::new())));
            let tasks: Vec<_> = (0..20)
                .map(|k| {
                    let (latest, order) = (latest.clone(), Arc::clone(&order));
                    tokio::spawn(async move {
                        let seen = latest.wait(|&value| (value > 1).then_some(value)).await;
                        locked(&order).push((k, seen));
                    })
                })
                .collect();
            for _ in 0..2 {
                tokio::task::yield_now().await;
                latest.change(|value| *value += 1);
            }
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*locked(&order), (0..20).map(|k| (k, 2)).collect::<Vec<_>>());
            latest.set(7);
            assert_eq!((latest.get(), latest.wait(|&value| Some(value)).await), (7, 7));
        });
    }
}
