//! What the walk finds in bodies, and what it must let pass.

use syn::{Expr, ExprClosure, Pat, parse_quote};

use super::{Known, check};
use crate::ctxt::Ctxt;
use crate::parallel_for::captures;
use crate::parallel_for::ir::Kind;

/// The messages about a loop with this capture list and this closure.
fn messages(list: &str, closure: &str) -> Vec<String> {
    messages_of(Kind::Async, list, closure)
}

fn messages_of(kind: Kind, list: &str, closure: &str) -> Vec<String> {
    let cx = Ctxt::new();
    let list: Expr = syn::parse_str(list).unwrap();
    let Expr::Array(list) = list else { panic!("no list") };
    let captured = captures::check(list.elems.into_iter().collect(), &cx);
    let closure: ExprClosure = syn::parse_str(closure).unwrap();
    let parameters: Vec<Pat> = closure.inputs.into_iter().collect();
    let input = (kind == Kind::Sync).then(|| parse_quote!(data));
    check(&closure.body, &Known { kind, input: input.as_ref(), captured: &captured, parameters: &parameters }, &cx);
    match cx.check() {
        Ok(()) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

const LIST: &str = "[alpha, names, &x, &mut y, &loss]";

fn body(statements: &str) -> Vec<String> {
    messages(LIST, &format!("|i| {{ {statements} }}"))
}

#[track_caller]
fn passes(statements: &str) {
    assert_eq!(body(statements), Vec::<String>::new(), "{statements}");
}

/// The names that are reported as missing.
fn missing(statements: &str) -> Vec<String> {
    body(statements)
        .iter()
        .filter_map(|message| message.strip_prefix("the loop's body uses `")?.split('`').next())
        .map(str::to_string)
        .collect()
}

#[track_caller]
fn misses(statements: &str, names: &[&str]) {
    assert_eq!(missing(statements), names, "{statements}");
}

#[test]
fn captures_and_the_index_are_bound() {
    passes("y[i] = alpha * x[i] + names.len() as f32; loss.add(y[i]);");
    assert!(messages("[p = &mut self.p, a = self.alpha, &*q, *b]", "|i| p[i] = a + q[i] + b").is_empty());
    assert!(messages("[&x]", "|mut i: usize| { i += 1; x[i] + 0.0; }").is_empty());
    assert!(messages("[&x]", "|_| { x[0usize] + 0.0; }").is_empty());
    assert_eq!(messages("[&x]", "|_| { x[i] + 0.0; }").len(), 1);
}

#[test]
fn plain_uses_are_found() {
    misses("y[i] = beta * 2.0;", &["beta"]);
    misses("y[i] = 2.0 - beta;", &["beta"]);
    misses("y[i] = -beta; y[i] = !gamma; y[i] = *delta;", &["beta", "gamma", "delta"]);
    misses("y[i] += beta;", &["beta"]);
    misses("y[i] = beta.sqrt();", &["beta"]);
    misses("y[i] = beta[i];", &["beta"]);
    misses("y[i] = x[beta];", &["beta"]);
    misses("y[i] = beta.field.other;", &["beta"]);
    misses("update(&beta, &mut gamma);", &["beta", "gamma"]);
    misses("beta = 1.0; gamma[i] = 2.0; delta.f += 1;", &["beta", "gamma", "delta"]);
    misses("(beta, _) = (1.0, 2.0); [gamma, ..] = [1.0, 2.0];", &["beta", "gamma"]);
    misses("if beta > 1.0 { } while gamma { } match delta { _ => {} }", &["beta", "gamma", "delta"]);
    misses("for k in 0..n { } for k in items { }", &["n", "items"]);
    misses("let k = beta as usize; let f = beta as f32;", &["beta"]);
    misses("let k = read(i, beta)?; let k = gamma?;", &["gamma"]);
    misses("let p = Point { a: 1.0, ..origin };", &["origin"]);
    misses("let f = |k: usize| k + beta;", &["beta"]);
    misses("if let Some(b) = maybe { }", &["maybe"]);
    misses("y[i] = x[i].powf(beta).clamp(low, high).mul_add(a, b);", &["beta", "low", "high", "a", "b"]);
    misses("y[i] = f32::max(beta, 0.0); loss.add(gamma);", &["beta", "gamma"]);
    misses("let z = &raw const beta; let z = &raw mut gamma;", &["beta", "gamma"]);
    misses("self.p[i] = self.alpha; call(self);", &["self"]);
    misses("let y = 2.0 * if c { beta } else { 1.0 };", &["c", "beta"]);
}

#[test]
fn each_name_is_reported_once_with_its_strongest_use() {
    let found = body("let a = beta + 1.0; beta[i] = a; beta[i] = beta[0];");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("add `&mut beta`"), "{found:?}");
    let found = body("let a = gamma[i] + gamma[0];");
    assert!(found[0].ends_with("add `&gamma` for a DDS, `gamma` for a value"), "{found:?}");
    let found = body("total += 1.0;");
    assert!(found[0].contains("use a reduction"), "{found:?}");
    let found = body("y[i] = alhpa * 2.0;");
    assert!(found[0].contains("did you mean `alpha`?"), "{found:?}");
}

#[test]
fn what_may_be_a_function_or_a_constant_passes() {
    passes("y[i] = Some(x[i]).map(square).map_or(0.0, half);");
    passes("let f = square; y[i] = f(x[i]) + half(x[i]) + module::third(x[i]);");
    passes("let table = [square, half]; let pair = (square, half); let s = Fns { square, other: half };");
    passes("y[i] = apply(square, x[i]); let f: fn(f32) -> f32 = if i > 3 { square } else { half };");
    passes("let f = square as fn(f32) -> f32;");
    passes("y[i] = K as f32 * LIMIT + Self::RATE + T::default() + consts::pi;");
    passes("let a = [0.0; n]; const { size };");
    passes("let v = vec![square, half]; let v = vec![square; 3];");
    passes("y[i] = Some(beta).unwrap_or(gamma);");
}

#[test]
fn patterns_bind() {
    passes("let a = 1.0; let (b, [c, .., d]) = t(); let P { e, f: g, .. } = p(); y[i] = a + b + c + d + e + g;");
    misses("let P { f: g, .. } = p(); y[i] = f + g;", &["f"]);
    passes("let n @ 0..=9 = i else { return }; let &m = &i; let ref k = i; y[i] = n + m + *k;");
    passes("match x[i] { Some(a) | Other(_, a) if a > 1.0 => y[i] = a + 1.0, b @ Third { .. } => y[i] = -b, _ => {} }");
    misses("match x[i] { Some(a) => {} _ => y[i] = -a }", &["a"]);
    passes("for (k, v) in x[i].iter().enumerate() { y[k] = *v; }");
    passes("while let Some(k) = next() { y[i] = -k; }");
    passes("if let Some(a) = t() && a > 1.0 && let b = a + 1.0 { y[i] = a + b; }");
    misses("if let Some(a) = t() { } else { y[i] = -a; }", &["a"]);
    misses("{ let a = 1.0; } y[i] = -a;", &["a"]);
    misses("let a = -a;", &["a"]);
    passes("let f = |a, (b, c): (f32, f32)| a + b + c; let g = move |d: f32| -> f32 { -d };");
    misses("let f = |a: f32| a; y[i] = -a;", &["a"]);
    passes("let Some(a) = t() else { return }; y[i] = -a;");
    misses("let Some(a) = t() else { y[i] = -a; return };", &["a"]);
    passes("let r#type = 1.0; y[i] = r#type + 1.0;");
    passes("y[i] = loop { let a = 1.0; break a + 1.0; };");
}

#[test]
fn items_bind_in_their_whole_block() {
    passes("y[i] = -one; const one: f32 = 1.0;");
    passes("y[i] = -two; static two: f32 = 1.0;");
    passes("use consts::{pi, e as euler}; y[i] = -pi + euler.sqrt();");
    passes("let g = &helper; fn helper() { let z = beta + 1.0; }");
    misses("{ const one: f32 = 1.0; } y[i] = -one;", &["one"]);
}

#[test]
fn macros_that_are_known_are_read() {
    misses("assert!(beta > 1.0); assert_eq!(gamma, 1.0, \"{}\", delta);", &["beta", "gamma", "delta"]);
    misses("println!(\"{beta} {:>width$} {}\", 1.0, gamma);", &["beta", "width", "gamma"]);
    misses("let s = format!(\"{a} {b}\", a = beta);", &["b", "beta"]);
    misses("write!(out, \"{x:?}\").ok();", &["out"]);
    misses("let v = vec![0.0; n]; let v = vec![1.0, -beta];", &["n", "beta"]);
    misses("let b = matches!(beta, Some(a) if a > gamma);", &["beta", "gamma"]);
    misses("dbg!(beta); std::println!(\"{gamma}\");", &["beta", "gamma"]);
    passes("println!(\"{alpha} {{beta}} {0} {i}\", x[i]); let s = stringify!(beta); todo!();");
    passes("println!(\"{}\", a = 1.0); let a = 1.0; println!(\"{a:.*}\", 3, b = 1.0);");
    passes("log::info!(\"{beta}\"); other::assert!(beta > 1.0);");
}

#[test]
fn macros_that_are_not_known_may_bind() {
    passes("bind!(beta = 1.0); y[i] = -beta;");
    passes("bind! { let (a, b) } y[i] = a + b;");
    passes("let z = unknown!(beta + 1.0);");
    passes("let pattern!(a, b) = t(); y[i] = a + b;");
    misses("let z = unknown!(beta); y[i] = -beta;", &["beta"]);
}

#[test]
fn code_that_attributes_may_remove_is_not_looked_at() {
    passes("#[cfg(feature = \"log\")] { y[i] = -beta; }");
    passes("#[cfg(feature = \"log\")] let a = -beta; y[i] = -a;");
    passes("match x[i] { #[cfg(unix)] a => y[i] = -beta, _ => {} }");
    misses("#[allow(unused)] { y[i] = -beta; }", &["beta"]);
}

#[test]
fn writes_through_shared_captures() {
    let refused = |statements: &str| {
        let found = body(statements);
        assert_eq!(found.len(), 1, "{statements}: {found:?}");
        assert!(found[0].contains("captured as `&x`"), "{statements}: {found:?}");
    };
    refused("x[i] = 1.0;");
    refused("x[i].f[2] += 1.0;");
    refused("(x[i], y[i]) = (1.0, 2.0);");
    refused("let r = &mut x[i];");
    refused("let r = &mut x[i].f;");
    refused("swap(&mut x[0], &mut y[0]);");
    refused("let (a, b) = x.pair_mut(0, 1);");
    refused("let [a] = x.many_mut([i]);");
    refused("for v in x[i].iter_mut() { }");
    refused("x[i].copy_from_slice(&y[i]);");
    refused("x += 1.0;");
    refused("let f = |k| { x[k] = 1.0; };");
    passes("y[i] = x[i]; let r = &mut y[x[i]]; let (a, b) = y.pair_mut(0, 1); y[i].iter_mut();");
    passes("let mut x = [1.0]; x[0] = 2.0; x[0] += 1.0; let r = &mut x;");
    passes("let r = &x[i]; let s = x.iter_mut;");
}

#[test]
fn values_that_a_body_never_gives() {
    for refused in
        ["return 1.0;", "return (i, 2);", "return [i];", "return &x[i];", "return i as f32;", "return i > 3;"]
    {
        let found = body(refused);
        assert_eq!(found.len(), 1, "{refused}: {found:?}");
        assert!(found[0].starts_with("an iteration returns no value"), "{found:?}");
    }
    passes("if i > 3 { return; } return ();");
    passes("return Ok(()); return Err(\"none\"); return fail(i); return y[i].check(); return r as Result<(), Never>;");
    passes("let f = |k: usize| { return k as f32; }; let g = async { return 3; };");
}

/// The messages about a minibatch's body.
fn batch_body(statements: &str) -> Vec<String> {
    messages_of(Kind::Sync, LIST, &format!("|batch| {{ {statements} }}"))
}

#[track_caller]
fn batch_passes(statements: &str) {
    assert_eq!(batch_body(statements), Vec::<String>::new(), "{statements}");
}

#[track_caller]
fn batch_refused(statements: &str, because: &str) {
    let found = batch_body(statements);
    assert_eq!(found.len(), 1, "{statements}: {found:?}");
    assert!(found[0].contains(because), "{statements}: {found:?}");
}

#[test]
fn shared_elements_have_methods() {
    batch_passes("for word in batch { y[*word].add(alpha * x[*word]); loss.add(y[*word].get()); }");
    batch_passes("let row = &y[0]; row.set(1.0); f(&y[0], row); y[x[0]].axpy(alpha, &y[1].get()); let n = y.len();");
    batch_passes("let mut y = [1.0]; y[0] = 2.0; y[0] += 1.0; let r = &mut y[0]; let z = y[0] + y[0];");
    batch_passes("let ref row = y[0]; let _ = y[0]; match y[0] { ref row => row.set(1.0) } println!(\"{:?}\", y[0]);");
    batch_passes(
        "let mut copy = y[0].get(); copy[2] += 1.0; y[0].set(copy); y[0].get()[3].sqrt(); y[0].get().f + 1.0;",
    );
}

#[test]
fn shared_elements_are_not_written_as_places() {
    batch_refused("y[0] = 1.0;", "write `y[i].set(..)`");
    batch_refused("*y[0] = 1.0;", "write `y[i].set(..)`");
    batch_refused("y[0] += 1.0;", "write `y[i].add(..)`");
    batch_refused("y[0] -= 1.0;", "write `y[i].set(y[i].get() - ..)`");
    batch_refused("y[0] <<= 1;", "write `y[i].set(y[i].get() << ..)`");
    batch_refused("y[0][2] += 1.0;", "`let mut copy = y[i].get();`");
    batch_refused("y[0].seen = true;", "`let mut copy = y[i].get();`");
    batch_refused("let r = &mut y[0];", "none can be borrowed as `&mut`");
    batch_refused("let r = &mut y[0].f;", "none can be borrowed as `&mut`");
    batch_refused("let (a, b) = y.pair_mut(0, 1);", "none can be borrowed as `&mut`");
    batch_refused("y[0].copy_from_slice(&x[0]);", "none can be borrowed as `&mut`");
    batch_refused("for v in y[0].iter_mut() { }", "none can be borrowed as `&mut`");
    batch_refused("y = x;", "`y[i].set(..)` or `y[i].add(..)`");
    batch_refused("(y[0], _) = (1.0, 2.0);", "write `y[i].set(..)`");
}

#[test]
fn shared_elements_are_not_read_as_places() {
    for refused in [
        "let v = y[0];",
        "let v: f32 = y[0];",
        "let v = y[0] + 1.0;",
        "let v = 1.0 - y[0];",
        "let v = -y[0];",
        "if y[0] > 1.0 { }",
        "let v = y[0] as f64;",
        "loss.add(y[0]);",
        "f(y[0]);",
        "let v = (1.0, y[0]);",
        "let v = x[y[0]];",
        "for k in 0..y[0] { }",
        "alphas(Pair { a: y[0] });",
        "let mut z = 0.0; z += y[0];",
        "let z; z = (y[0]);",
    ] {
        batch_refused(refused, "read one by `y[i].get()`");
    }
    batch_refused("let v = y[0][2] + 1.0;", "`y[i].get()[k]`");
    batch_refused("let v = y[0].f;", "`y[i].get().field`");
}

#[test]
fn the_other_mistakes_in_minibatches() {
    batch_refused("for word in data { }", "`data` is the loop's input");
    batch_refused("break;", "its minibatches run in parallel, in no fixed order; `return` ends this minibatch");
    batch_refused("fetch(batch).await;", "a minibatch runs to its end on one thread");
    batch_refused("return 3;", "a minibatch returns no value");
    batch_refused("total += 1.0;", "minibatches run in parallel");
    batch_refused("alpha *= 0.5;", "a copy that lasts one minibatch");
    batch_refused("x[0] = 1.0;", "capture `&mut x`");
    batch_refused("loss += 1.0;", "`loss[i].set(..)` or `loss[i].add(..)`");
    batch_refused("sync_parallel_for!(data, 3, [&z], |b| z[0], Bsp);", "in the body of another");
    batch_refused("y[0].add(beta * 2.0);", "add `beta`");
}

#[test]
fn values_and_whole_dvectors_are_not_assigned() {
    assert!(body("alpha = 1.0;")[0].contains("captured by value"));
    assert!(body("alpha *= 0.5;")[0].contains("captured by value"));
    assert!(body("names[0] = 1;")[0].contains("captured by value"));
    assert!(body("names.push_all(&mut names);")[0].contains("captured by value"));
    assert!(body("y = 1.0;")[0].contains("`y[i] = ..`"));
    passes("let mut alpha = alpha; alpha *= 0.5; y[i] = alpha;");
}

#[test]
fn jumps_out_of_the_body() {
    for refused in
        ["break;", "continue;", "if i > 3 { break }", "for k in 0..3 { continue 'epochs; }", "'a: { break; }"]
    {
        assert_eq!(body(refused).len(), 1, "{refused}");
    }
    passes("for k in 0..3 { break; } loop { continue; } while true { break; }");
    passes("'a: loop { loop { break 'a; } } 'b: { break 'b; } 'c: for k in 0..3 { while true { continue 'c; } }");
    passes("let v = loop { break 3; }; return;");
    // rustc reports these itself.
    passes("let f = || { break; };");
}

#[test]
fn awaiting_and_nesting() {
    assert!(body("y[i] = fetch(i).await;")[0].contains("`.await`"));
    assert_eq!(body("let f = || { fetch(i).await };").len(), 1);
    passes("let task = async { fetch(i).await }; let task = async |k: usize| fetch(k).await;");
    assert!(body("async_parallel_for!(0..3, [&z], |k| z[k]);")[0].contains("another"));
    assert!(body("let r = stradsap::sync_parallel_for!(data, 3, [&z], |k| z[k]);")[0].contains("another"));
}

#[test]
fn what_was_there_before_is_for_what_a_loop_writes() {
    passes("y[i] = y.old[i + 1]; names.old; x[i].old;");
    passes("let x = other; x.old;");
    assert!(body("y[i] = x.old[i];")[0].ends_with("write `x` for `x.old`"));
    for write in ["y.old[i] = 1.0;", "y.old[i] += 1.0;", "y.old[i].part = 2;", "f(&mut y.old[i]);"] {
        assert!(body(write)[0].starts_with("`y.old` is what was there before the loop"), "{write}: {:?}", body(write));
    }
    let minibatch = messages_of(Kind::Sync, LIST, "|batch| { y[0].add(y.old[1]); }");
    assert!(minibatch[0].contains("is for `async_parallel_for!`"), "{minibatch:?}");
}

#[test]
fn a_session_is_no_capture() {
    for use_of_it in ["let total = session.sum(0.0);", "helper(&session);", "y[i] = session;"] {
        let found = body(use_of_it);
        let [found] = found.as_slice() else { continue };
        assert!(found.contains("a `Session` can't be captured: make reductions"), "{found}");
    }
    assert_eq!(body("let total = session.sum(0.0);").len(), 1);
}

#[test]
fn get_gives_an_option() {
    let found = body("let v = x.get(i + 1)?; Ok(())");
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("`x.get(i + 1)` is an `Option`") && found[0].contains("write `x[i + 1]`"), "{found:?}");
    assert_eq!(body("let v = *y.get(&names)?;").len(), 1);
    passes("let v = x.get(i).copied().ok_or(\"none\")?; let w = names.get(0)?; let x = maybe(i); let v = x.get(i)?;");
    passes("let first = || { let v = x.get(i)?; Some(*v + 1.0) };");
}

#[test]
fn calls_that_change_collections_are_noted() {
    let cx = Ctxt::new();
    let list: Vec<Expr> = vec![parse_quote!(log), parse_quote!(kept), parse_quote!(&mut y)];
    let captured = captures::check(list, &cx);
    let parameters: [Pat; 1] = [parse_quote!(i)];
    let closure: Expr = parse_quote!({
        let mut kept = kept.clone();
        kept.push(i);
        y.push(i);
        log.len();
        log.push(i);
        log.clear()
    });
    check(&closure, &Known { kind: Kind::Async, input: None, captured: &captured, parameters: &parameters }, &cx);
    let noted = captured.captures.iter().map(|capture| capture.changed_by.get().map(ToString::to_string));
    assert_eq!(noted.collect::<Vec<_>>(), [Some("push".to_string()), None, None]);
    assert!(cx.check().is_ok());
}

#[test]
fn macros_whose_definition_is_not_known() {
    let unknown = |body: &str| super::call_unknown(body.parse().unwrap());
    assert!(
        unknown("bump!(y[i])") && unknown("if x != (1) { let a = vec![own!()]; }") && unknown("log::info!(\"{i}\")")
    );
    assert!(!unknown("if x != (1) { println!(\"{i}\"); assert!(a != (2)); vec![1]; }"));
}
