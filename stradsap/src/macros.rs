//! The macros and their documentation, whose examples need this crate.

/// A loop that is written as if sequential and runs in parallel (STRADS-AP, sections 2 and 3).
///
/// `async_parallel_for!(range, [captures], |i| body, options)` is an expression of type
/// `stradsap::Result<LoopReport>`. The DDSs (distributed data structures: [`DVector`](crate::DVector), [`DMatrix`](crate::DMatrix),
/// [`DMap`](crate::DMap), [`DMultiMap`](crate::DMultiMap)) and the reductions end as some sequential order of the iterations would
/// have left them. The bits are the same on any number of threads.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let edges = DVector::from_vec(&session, vec![[0u32, 1], [1, 2], [2, 0]])?;
/// let mut degree = DVector::from_fn(&session, 3, |_| 0u32)?;
/// let (step, total) = (1, session.sum(0.0f64));
/// let report = async_parallel_for!(0..edges.len(), [step, &edges, &mut degree, &total], |i| {
///     let [from, to] = edges[i];
///     degree[from] += step;
///     degree[to] += step;
///     total.add(2.0);
/// }, label = "count")?;
/// assert_eq!(degree.to_vec()?, [2, 2, 2]);
/// assert_eq!((total.get(), report.iterations()), (6.0, 3));
/// # Ok(())
/// # }
/// ```
///
/// # Arguments
/// - **Range**: a range of indices, `0..n` or `0..=n`, of at most 2^48 iterations that begin at 0 or later. Its integers may be of
///   any type of up to 64 bits; the index has that type in the body. `(0..n).rev()` and `(0..n).step_by(k)` are ranges, too.
///   Reports and errors call the iterations of a plain range by their index, and those of all else by their number, from 0 on.
///   `(0..rows, 0..columns)` gives the body pairs, `|(i, j)|`, in the order
///   of two nested loops. `&order`, a DVector of `Copy` elements, gives the body one element in each iteration.
/// - **Captures**: everything from outside that the body uses, and how.
///   - `&x` is a DDS that is only read, or a reduction.
///   - `&mut x` is a DDS that may be written. `x.old[j]` in the body is element `j` of a DVector or DMatrix as it was before the loop.
///     Reading it makes no iterations conflict: each call makes a copy, which counts as one more DDS, captured as `&x`.
///   - `sum x` is a DDS that the body only adds to (`x[k] += v`, `x.add(k, v)`, `*m.entry(key).or_insert(0) += v`). It makes no
///     iterations conflict, since blocks add to copies of their own (see [`Additive`](crate::Additive)). A `&mut x` whose body does the
///     same is treated so by itself, if the elements are exact (integers, for instance).
///   - `x` alone is a value. It is copied into the loop's tasks, so it has to be serialisable (serde). The body gets a value that is
///     `Copy` as it is, and others by reference. References to such values, slices and texts can be captured, as can an `Arc` of one, functions,
///     function pointers of up to three parameters, and closures that capture nothing.
///   - A capture can be given a name: `alpha = self.alpha`, `p = &mut self.p`.
///   - There are at most 12 values, and at most 12 DDSs and reductions. Functions, constants, types and modules need no capturing.
/// - **Body**: a closure of the iteration's index. It returns `()` or a `Result<(), E>`; `return` ends an iteration.
///   - A DVector is indexed by integers, and has `len()`, `get(i)`, `first()`, `last()`, `&x[a..b]` (a slice) and `iter()`. `iter()` and `for e in &x` read all elements.
///   - A DVector captured as `&mut x` also has `&mut x[a..b]`, `get_mut(i)`, `iter_mut()`, `swap(i, j)`, and `x.pair_mut(i, j)` and
///     `x.many_mut([i, j, k])`, which borrow several elements at once.
///   - Reductions have `add`, `min`, `max`, `or` or `and`.
/// - **Options**, separated by commas, in any order:
///   - `order = Preserve`: the loop's own order; the result is bit-identical to that of the plain `for`. The default is `Any`.
///   - `parts = 8`: the number of ranges that each shared DDS is cut into, or the number of blocks of a loop without conflicts; at most 1,024.
///   - `grain = 100`: how many iterations are enough work for a block, for iterations that do much with few accesses.
///   - `strategy = Grid`, `Coloured`, `Tiled` or `Serial`: only this [`Strategy`](crate::Strategy) is considered.
///   - `scratch = vec![0.0; 8]`: a value that each block of iterations makes for itself before its first one. The body takes it as a second
///     parameter, `|i, scratch|`, a `&mut` reference.
///   - `staleness = 2`: how many strata of blocks the reads of [relaxed state](crate::RelaxedVector) may lag behind, at least 1 (2 by default).
///   - `on_failure = Poison`: the loop isn't undone when its body fails, and what it writes can't be used any more then (see
///     [`OnFailure`](crate::OnFailure)). The default is `Undo`.
///   - `label = "epoch"`: a name for reports.
///
/// ```
/// use stradsap::prelude::*;
///
/// struct Model {
///     rate: f64,
///     weights: DVector<f64>,
/// }
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let mut model = Model { rate: 0.5, weights: DVector::from_fn(&session, 4, |i| i as f64)? };
/// async_parallel_for!(1..4, [rate = model.rate, w = &mut model.weights], |i| {
///     w[i] += rate * w[i - 1];
/// }, order = Preserve)?;
/// assert_eq!(model.weights.to_vec()?, [0.0, 1.0, 2.5, 4.25]);
///
/// async_parallel_for!(0..2, [w = &mut model.weights], |i| {
///     let (a, b) = w.pair_mut(i, 3 - i);
///     std::mem::swap(a, b);
/// })?;
/// assert_eq!(model.weights.to_vec()?, [4.25, 2.5, 1.0, 0.0]);
///
/// // Backwards: the last comes first, the others go one place on.
/// async_parallel_for!((1..4u32).rev(), [w = &mut model.weights], |i| w.swap(i, i - 1), order = Preserve)?;
/// assert_eq!(model.weights.to_vec()?, [0.0, 4.25, 2.5, 1.0]);
///
/// // Each from what its neighbours were before the loop.
/// async_parallel_for!(1..3, [w = &mut model.weights], |i| w[i] = w.old[i - 1] + w.old[i + 1])?;
/// assert_eq!(model.weights.to_vec()?, [0.0, 2.5, 5.25, 1.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Dependencies
/// An iteration may touch any elements of what it captures, and as many as it likes. The loop needn't declare which: the runtime finds
/// out by running the body *virtually*. Two iterations that touch the same element, of which at least one writes it, never run at the same time; the
/// plan says which comes first. If an iteration touches an element that the plan didn't foresee, the loop is undone, recorded again and run
/// again. If that happens three times in a row, the iteration runs alone from then on, between the plan's blocks. If there
/// are many such iterations, the loop runs serially, with a warning.
///
/// While a loop is recorded nothing is written. Reads give the real elements, and an element that is borrowed to be
/// written is a placeholder with another element's value. Hence a body must have no side effects (what it prints may
/// appear more than once), must depend on nothing but its index and captures, and must end whatever values it sees.
///
/// # Determinism
/// The serial order depends only on the data, the captured values and the options. So the bits are the same on any number of threads and
/// worker processes, and after the loss of a worker. [`LoopReport::serial_order`](crate::LoopReport::serial_order) gives that order,
/// which under `order = Preserve` may be another one with the same result,
/// and [`Session::verify`](crate::Session::verify) replays it and compares.
///
/// # Errors
/// The loop gives an `Err` when an iteration returns one, panics, or uses an index that is out of range. Every DDS
/// and reduction then holds what it held before the loop.
///
/// - Under `order = Preserve` the error is that of the plain loop, at the same iteration; if the plain loop ends well, there is none. To
///   find out, a loop in which an iteration fails is run once more in its own order.
/// - Under `order = Any` the error is the first one in the plan's serial order.
/// - If an element's destructor panics while the loop is undone, everything is put back first, and then that panic is the error.
///
/// The library can't help in two cases. Before the loop is undone and run again, an iteration may see values that the plain
/// loop wouldn't show it. If it *panics* on them (or uses an index out of range) while it has a guard whose destructor panics too, the process
/// aborts, as Rust demands. And if it never ends on them, neither does the parallel loop, unless the endless loop is
/// a `while`, a `loop` or a `for` over `0..` in the body that names a DDS.
///
/// These are compile errors: a variable that the body uses without capturing it, a write through `&x`, `break` and `continue` out of
/// the body, `.await`, and a parallel loop within the body.
///
/// ```
/// use stradsap::Error;
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let mut x = DVector::from_vec(&session, vec![3.0f64, 4.0, -1.0])?;
/// let result = async_parallel_for!(0..x.len(), [&mut x], |i| {
///     x[i] *= 2.0;
///     if x[i] < 0.0 { Err("negative") } else { Ok(()) }
/// });
/// assert!(matches!(result, Err(Error::Body { iteration: 2, .. })));
/// assert_eq!(x.to_vec()?, [3.0, 4.0, -1.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// The first call records which elements each iteration touches, and makes a plan. That takes about as long as one or a few
/// epochs if iterations work on rows of numbers, and as ten or more if they do next to nothing. Later calls at the same place in the source reuse
/// the plan if DDSs (the same ones, not equal ones), lengths, range and options are the same; values and reductions may
/// change. So create DDSs outside the loop over epochs. Making a plan takes at most 24 bytes of memory for each
/// access; `LoopReport::planning_peak_bytes` says how many it took.
pub use stradsap_macros::async_parallel_for;

/// A loop over minibatches of a DVector or a DMatrix, on copies of what it writes (STRADS-AP, section 2).
///
/// `sync_parallel_for!(input, minibatch, [captures], |batch| body, policy, options)` is an expression of type
/// `stradsap::Result<SyncReport>`. Each thread runs minibatches on its own copy of the DDSs that the loop writes,
/// and the policy says when the copies' changes are united. Use it for algorithms that tolerate slightly stale values,
/// such as stochastic gradient descent. Where the result must be that of a serial order of the iterations, use
/// `async_parallel_for!`.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// // Points with what a line through them should give.
/// let points = DVector::from_fn(&session, 1000, |i| (i as f32 / 1000.0, 3.0 * i as f32 / 1000.0 - 1.0))?;
/// let mut line = DVector::from_vec(&session, vec![0.0f32; 2])?;
/// let rate = 0.1f32;
/// for _epoch in 0..20 {
///     let (loss, seen) = (session.sum(0.0f64), session.count());
///     sync_parallel_for!(points, 50, [rate, &mut line, &loss, &seen], |batch| {
///         for &(x, y) in batch {
///             let error = y - (line[0].get() * x + line[1].get());
///             line[0].add(rate * error * x);
///             line[1].add(rate * error);
///             loss.add(f64::from(error * error));
///         }
///         seen.add(batch.len() as u64);
///     }, SyncPolicy::ModelAverage { every: 2 })?;
///     assert_eq!(seen.get(), 1000);
/// }
/// assert!((line.get(0)? - 3.0).abs() < 0.1 && (line.get(1)? + 1.0).abs() < 0.1);
/// # Ok(())
/// # }
/// ```
///
/// # Arguments
/// - **Input**: a DVector of any elements or a DMatrix, `data` or `&data`. It is only read.
/// - **Minibatch**: the number of elements that the body gets at a time, at least 1. The last minibatch may have fewer.
/// - **Captures**: as in `async_parallel_for!`, a bare name is a value, and `&x` is a reduction or a DDS that is only read (`x[i]` gives
///   `&T`).
///   - The elements of a DVector captured as `&mut x` are *shared*: `x[i]` gives a [`&Shared<T>`](crate::Shared), which only its methods
///     change. It has `get` and `set`; numbers have `add`; and rows of floats have `dot`, `axpy`, `scale`, `add_to` and more.
///   - Shared elements have to be plain and implement [`Merge`](crate::Merge), which says how changes of copies are united. Numbers and arrays
///     of numbers are added up.
///   - Of a `DMap` captured as `&mut m` the values are shared, `m[&key]` and `m.get(&key)`; `m.entry(key).or_insert(value)` adds keys. To a
///     `DMultiMap` captured as `&mut m` the body adds values, `m.insert(key, value)`. Each copy has its own new keys and values; the map
///     takes those of all copies when the call has ended well. Keys are never removed.
///   - The input may be captured as `&data` as well, to read elements outside the minibatch.
/// - **Body**: a closure of the minibatch, a [`Batch`](crate::Batch). It is a slice of elements, `for element in batch`. It is minibatch
///   `batch.number()` of the loop and begins at the input's element `batch.start()`. Of a DMatrix the elements are rows,
///   which are slices: `for row in batch`, `batch[k]`, `batch.len()`. The body returns `()` or a `Result<(), E>`; `return` ends a minibatch.
/// - **Policy**: a [`SyncPolicy`](crate::SyncPolicy), see below. Its name may stand alone: `Bsp`, `Ssp { staleness: 2 }`.
/// - **Options**, separated by commas, in any order:
///   - `merge = Combine`: how the changes of copies are united, see below. The default is `Sum`.
///   - `interval = N`: copies meet after `N` minibatches of each thread instead of 1, see below.
///   - `prefetch = false`: rows of other processes are fetched only when they are touched (IterStore, section 4.7), to measure what
///     prefetching gains.
///   - `early = N`: N % of the rows that a round is known to touch arrive before it begins, the others while its bodies run. The default
///     is 10.
///   - `caches = N`: under `Hybrid` each thread has copies of its own of the N hottest rows of a DDS (IterStore, section 4.6), 512 at the most
///     and by default. `false` stands for 0.
///   - `label = "epoch"`: a name for reports.
///
/// ```
/// use stradsap::prelude::*;
///
/// struct Model {
///     texts: DVector<Vec<u32>>,
///     words: DVector<[f32; 4]>,
/// }
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let mut model = Model {
///     texts: DVector::from_vec(&session, vec![vec![0, 2, 1], vec![2], vec![1, 1, 0]])?,
///     words: DVector::from_fn(&session, 3, |w| [w as f32; 4])?,
/// };
/// let mut counts = DVector::from_vec(&session, vec![0u64; 3])?;
/// let report = sync_parallel_for!(model.texts, 2, [words = &mut model.words, &mut counts], |batch| {
///     let mut sum = [0.0; 4];
///     for (at, text) in batch.into_iter().enumerate() {
///         assert!(batch.start() + at < 3 && batch.number() < 2);
///         for &word in text {
///             words[word].add_to(0.5, &mut sum); // sum += 0.5 * words[word]
///             counts[word].add(1);
///         }
///     }
///     words[0].axpy(0.1, &sum); // words[0] += 0.1 * sum
/// }, Bsp, label = "sum")?;
/// assert_eq!(counts.to_vec()?, [2, 3, 2]);
/// assert_eq!((report.label(), report.minibatches(), report.copies()), (Some("sum"), 2, 2));
/// # Ok(())
/// # }
/// ```
///
/// # Policies
/// Each thread has a copy; under `Hybrid`, each process has one. A minibatch sees everything that its own copy did before. Of the
/// other copies it sees:
///
/// - `Bsp`: all rounds before. In a round every copy runs one minibatch (`interval = N`: `N` of them). Then the changes of all copies
///   are added up, or combined.
/// - `Ssp { staleness }`: all minibatches of each copy except perhaps its last `staleness`. A copy that
///   is further ahead waits.
/// - `Hybrid`: within a process everything that is written, at once and without locks (Hogwild). Processes agree after each
///   round, as under `Bsp`. In a round each thread runs one minibatch, or `N`.
/// - `ModelAverage { every }`: the average of all copies, made when each has run `every` minibatches. Each process
///   averages its share of the rows, by reduce-scatter and all-gather without a central node (MA-SGD, section 3).
///
/// # Merging
/// `Bsp` and `Hybrid` add changes up (`merge = Sum`). If copies do the same work on the same rows, the sum overshoots. `merge = Combine`
/// counts what the changes of a row have in common only once. It makes `a (1 - a.b / 2|a|^2) + b (1 - a.b / 2|b|^2)` of two changes `a` and
/// `b`: the sum if they are at right angles, and one of them if they are equal. Of more than two changes, the first is combined with
/// the second, the third with the fourth, and so on; then the results in the same way. A row is an element of a DVector, with all its numbers, or a
/// row of a DMatrix. Integers are always added up. A type of your own says in its `Merge` how its changes are combined. A row that a
/// single copy changed takes that copy's value.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let data = DVector::from_vec(&session, vec![[3.0f32, 0.0], [3.0, 0.0]])?;
/// let mut x = DVector::from_vec(&session, vec![[0.0f32; 2]])?;
/// sync_parallel_for!(data, 1, [&mut x], |batch| x[0].add(&batch[0]), SyncPolicy::Bsp)?;
/// assert_eq!(x.get(0)?, [6.0, 0.0]);
/// sync_parallel_for!(data, 1, [&mut x], |batch| x[0].add(&batch[0]), SyncPolicy::Bsp, merge = Combine)?;
/// assert_eq!(x.get(0)?, [9.0, 0.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Determinism
/// With one copy, and under `Hybrid` with one thread, every policy is the plain loop over all minibatches, in order
/// and in place, bit for bit. `Bsp` and `ModelAverage` give the same bits for the same number of copies, in one
/// process or on many, whatever the timing; so does `Hybrid` with one thread in each process. `Ssp`, and `Hybrid` with more threads, give
/// other bits from run to run.
///
/// # Errors
/// The loop gives an `Err` when a minibatch returns one, panics, or uses an index that is out of range. The error is
/// `Error::Minibatch`, which names the minibatch and its elements. Every DDS and reduction then holds what it held
/// before the loop.
///
/// These are compile errors: a variable that the body uses without capturing it, a shared element that is assigned to or
/// computed with, a write through `&x`, a missing policy, `merge = Combine` under a policy that merges in its own way, `break` and
/// `continue` out of the body, `.await`, and a parallel loop within the body.
///
/// ```
/// use stradsap::Error;
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let data = DVector::from_vec(&session, vec![3.0f32, 4.0, -1.0, 2.0])?;
/// let mut sum = DVector::from_vec(&session, vec![0.0f32])?;
/// let result = sync_parallel_for!(data, 2, [&mut sum], |batch| {
///     for &x in batch {
///         if x < 0.0 {
///             return Err("negative");
///         }
///         sum[0].add(x);
///     }
///     Ok(())
/// }, SyncPolicy::Hybrid);
/// assert!(matches!(result, Err(Error::Minibatch { minibatch: 1, start: 2, end: 4, .. })));
/// assert_eq!(sum.get(0)?, 0.0);
/// # Ok(())
/// # }
/// ```
///
/// When a worker process is lost the loop is undone and run again, so a body must have no side effects.
///
/// # Cost
/// Each copy reserves addresses for all elements that the loop writes, and takes memory for those that its minibatches touch. The
/// time to unite copies grows with the rows that a round touched, not with the length of the DDSs. On workers, the first
/// call records which rows each round touches. Later calls at the same place in the source, with the same DDSs, prefetch
/// these rows, the first tenth before the round begins. So create DDSs outside the loop over epochs. A minibatch
/// should take much longer than the synchronisation after it, but be short enough to keep its values fresh.
pub use stradsap_macros::sync_parallel_for;

/// An operator, or several one after the other, whose closures use what they capture.
///
/// ```text
/// with!([captures], data.map(|item| body))?
/// ```
///
/// The capture list is that of the loops. A bare name is a value, which is copied into the closure (`Copy` types arrive as
/// they are, others by reference). `&x` is a DDS that the closure reads: a `DVector` by `x[i]`, a `DMap` by `x[&key]` or `x.get(&key)`.
/// Operators write nothing that they capture. Captures are for the closures of `map`, `filter`, `flat_map`, `fold` (the first one) and
/// `transform`; the closures of other operators use their items alone.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// # let session = Session::new()?;
/// let words = DVector::from_vec(&session, ["a", "rose", "is", "a", "rose"].map(String::from).to_vec())?;
/// let counts = words.count_by_key(|word| word.clone())?;
/// let least = 2;
/// let often = with!([least, &counts], words.filter(|word| counts[word] >= least)).to_vec()?;
/// assert_eq!(often, ["a", "rose", "a", "rose"]);
/// # Ok(())
/// # }
/// ```
pub use stradsap_macros::with;

/// Makes a function that takes a session the program's `main`.
///
/// The function takes a `&Session`, which the environment configures (`STRADSAP_THREADS`, `STRADSAP_EXPLAIN`,
/// `STRADSAP_VERIFY` and others). It returns `()` or a `Result<(), E>` whose error
/// converts into `Box<dyn std::error::Error>`. In a process that was started as a worker, the function doesn't run: the process
/// runs loops for its driver, and then ends.
///
/// ```
/// use stradsap::prelude::*;
///
/// #[stradsap::main]
/// fn main(session: &Session) -> stradsap::Result<()> {
///     let squares = DVector::from_fn(session, 10, |i| (i * i) as u64)?;
///     assert_eq!(squares.get(3)?, 9);
///     Ok(())
/// }
/// ```
///
/// # Errors
/// An error that the function returns is printed to standard error as one line. The exit code is then 2 for
/// `stradsap::Error`s about usage, and 1 for all others.
pub use stradsap_macros::main;

/// Makes a struct or an enum an element that DDSs can hold.
///
/// The type has to be `Clone + Send + Sync + 'static`, and every field an `Element`: numbers, `bool`, `char`,
/// `String`, `Vec`, `Option`, `Box`, arrays, tuples, and types that derive it. A type whose fields are not elements
/// but that has serde's `Serialize` and `Deserialize` says `#[element(serde)]`.
///
/// A struct of numbers without padding is *plain*: it is copied and hashed as its bytes in memory, which is fastest. (With a `bool`
/// among its fields it isn't plain. Tuples are numbers here, where they have no padding either.) Elements must not change behind a shared reference: no `Cell`, no
/// `Mutex`, no atomics.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use stradsap::prelude::*;
///
/// #[derive(Clone, Copy, Element)]
/// struct Rating {
///     user: u32,
///     item: u32,
///     stars: f32,
/// }
///
/// #[derive(Clone, Element)]
/// enum Token {
///     Word(String),
///     Number(i64),
/// }
///
/// #[derive(Clone, Element, serde::Serialize, serde::Deserialize)]
/// #[element(serde)]
/// struct Document {
///     counts: BTreeMap<String, u32>,
/// }
///
/// assert!(Rating::PLAIN && !Token::PLAIN && !Document::PLAIN);
/// ```
pub use stradsap_macros::Element;
