//! Memory nodes (NUMA): on a machine that has several, each thread of a session stays on the processors of one. A copy of a
//! synchronous loop is always run by the same threads, which touch its rows first, so that the rows lie in the memory of their node
//! (IterStore, section 4.5).

use std::io;
use std::sync::Arc;

/// What is asked of the operating system.
pub(crate) trait System: Send + Sync {
    /// The numbers of the processors beside each memory node.
    fn nodes(&self) -> Vec<Vec<usize>>;
    /// The processors on which this process may run.
    fn allowed(&self) -> io::Result<Vec<usize>>;
    /// Keeps the calling thread on these processors.
    fn keep_on(&self, processors: &[usize]) -> io::Result<()>;
}

/// The processors of each memory node on which this process may run: two nodes, at least.
pub(crate) struct Nodes {
    nodes: Vec<Vec<usize>>,
    system: Arc<dyn System>,
}

impl Nodes {
    /// None where all threads have the same memory nearest.
    pub(crate) fn of(system: Arc<dyn System>) -> Option<Nodes> {
        let mut nodes = system.nodes();
        if nodes.len() < 2 {
            return None;
        }
        let allowed = system.allowed().ok()?;
        nodes.iter_mut().for_each(|node| node.retain(|processor| allowed.contains(processor)));
        nodes.retain(|node| !node.is_empty());
        (nodes.len() > 1).then_some(Nodes { nodes, system })
    }

    /// The node of thread `k`: each node has threads in proportion to its processors, with numbers one after the other.
    fn of_thread(&self, k: usize, threads: usize) -> &[usize] {
        let all: usize = self.nodes.iter().map(Vec::len).sum();
        let mut place = k * all / threads.max(1);
        for node in &self.nodes {
            match place.checked_sub(node.len()) {
                Some(behind) => place = behind,
                None => return node,
            }
        }
        &self.nodes[0]
    }

    /// Keeps the calling thread, the `k`-th, on the processors of its node. Where the system refuses, it runs anywhere.
    pub(crate) fn keep(&self, k: usize, threads: usize) {
        if let Err(error) = self.system.keep_on(self.of_thread(k, threads)) {
            tracing::debug!("thread {k} isn't kept on a memory node: {error}");
        }
    }
}

/// This machine.
pub(crate) struct Machine;

#[cfg(target_os = "linux")]
impl System for Machine {
    fn nodes(&self) -> Vec<Vec<usize>> {
        let Ok(entries) = std::fs::read_dir("/sys/devices/system/node") else { return Vec::new() };
        let mut nodes: Vec<(usize, Vec<usize>)> = entries
            .flatten()
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
                Some((number, listed(&std::fs::read_to_string(entry.path().join("cpulist")).ok()?)?))
            })
            .collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, processors)| processors).collect()
    }

    fn allowed(&self) -> io::Result<Vec<usize>> {
        let set = rustix::thread::sched_getaffinity(None)?;
        Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
    }

    fn keep_on(&self, processors: &[usize]) -> io::Result<()> {
        let mut set = rustix::thread::CpuSet::new();
        let known = |&&processor: &&usize| processor < rustix::thread::CpuSet::MAX_CPU;
        processors.iter().filter(known).for_each(|&processor| set.set(processor));
        Ok(rustix::thread::sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(target_os = "linux"))]
impl System for Machine {
    fn nodes(&self) -> Vec<Vec<usize>> {
        Vec::new()
    }

    fn allowed(&self) -> io::Result<Vec<usize>> {
        Ok(Vec::new())
    }

    fn keep_on(&self, _: &[usize]) -> io::Result<()> {
        Ok(())
    }
}

/// A list of processors as the kernel writes it: `0-3,8,10-11`. None if it is something else.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn listed(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        all.extend(first..=last.min(first.saturating_add(1 << 16)));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;
    use crate::session::pool::Pool;

    struct Fake {
        nodes: Vec<Vec<usize>>,
        allowed: Vec<usize>,
        kept: Mutex<Vec<(String, Vec<usize>)>>,
    }

    impl Fake {
        fn new(nodes: &[&str], allowed: &str) -> Arc<Fake> {
            let nodes = nodes.iter().map(|node| listed(node).unwrap()).collect();
            Arc::new(Fake { nodes, allowed: listed(allowed).unwrap(), kept: Mutex::default() })
        }
    }

    impl System for Fake {
        fn nodes(&self) -> Vec<Vec<usize>> {
            self.nodes.clone()
        }

        fn allowed(&self) -> io::Result<Vec<usize>> {
            Ok(self.allowed.clone())
        }

        fn keep_on(&self, processors: &[usize]) -> io::Result<()> {
            let name = thread::current().name().unwrap().to_owned();
            self.kept.lock().unwrap().push((name, processors.to_vec()));
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// The processors on which each thread of a pool was kept.
    fn kept(nodes: &[&str], allowed: &str, threads: usize) -> Vec<(String, Vec<usize>)> {
        let system = Fake::new(nodes, allowed);
        let pool = Pool::on(threads, 1 << 20, Arc::clone(&system) as Arc<dyn System>).unwrap();
        // All threads are there, though the system refused.
        let seen = Mutex::new(Vec::new());
        pool.everywhere(threads, |k| seen.lock().unwrap().push(k));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (0..threads).collect::<Vec<_>>());
        let mut kept = std::mem::take(&mut *system.kept.lock().unwrap());
        kept.sort();
        kept
    }

    #[test]
    fn threads_stay_on_the_processors_of_a_node() {
        let four = kept(&["0-3", "4-7"], "0-7", 4);
        let [low, high] = [(0..4).collect::<Vec<_>>(), (4..8).collect()];
        let of = |k: usize, node: &Vec<usize>| (format!("stradsap-{k}"), node.clone());
        assert_eq!(four, [of(0, &low), of(1, &low), of(2, &high), of(3, &high)]);
        // Interleaved numbers, of which some are forbidden: a node has threads as it has processors.
        let uneven = kept(&["0,2,4,6", "1,3,5,7"], "0,1,2,4", 4);
        assert_eq!(uneven, [of(0, &vec![0, 2, 4]), of(1, &vec![0, 2, 4]), of(2, &vec![0, 2, 4]), of(3, &vec![1])]);
        // More threads than processors.
        let many = kept(&["0", "1"], "0-1", 6);
        assert_eq!(many.iter().map(|(_, node)| node[0]).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn nobody_is_kept_where_one_node_is_left() {
        assert_eq!(kept(&["0-7"], "0-7", 4), []);
        assert_eq!(kept(&["0-3", "4-7"], "1-2", 2), []);
        assert_eq!(kept(&[], "0-7", 2), []);
        assert_eq!(kept(&["0-3", "4-7"], "0-7", 1), [], "the caller's own thread");
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(listed("0-2,8,10-11\n"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!(listed("\n"), Some(vec![]), "a node of memory alone");
        assert_eq!(listed("0-x"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_keeps_threads_where_they_may_run() {
        let allowed = Machine.allowed().unwrap();
        assert!(!allowed.is_empty());
        let last = *allowed.last().unwrap();
        let now = thread::spawn(move || Machine.keep_on(&[last]).and_then(|()| Machine.allowed())).join().unwrap();
        assert_eq!(now.unwrap(), [last]);
        assert_eq!(Machine.allowed().unwrap(), allowed, "another thread");
    }
}
