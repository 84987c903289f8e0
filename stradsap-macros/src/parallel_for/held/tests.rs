//! Which loops are written twice.

use quote::quote;

use super::*;

/// What becomes of a body over `i` with `&mut x`, `&y` and the values `u`, `v`, `n`, `c`.
fn rewritten(body: &str) -> String {
    let mut body: Expr = syn::parse_str(body).unwrap();
    let closure: syn::ExprClosure = syn::parse_quote!(|i| ());
    let index = Parameter { pattern: closure.inputs[0].clone() };
    let capture = |name: &str, mode| {
        let name = Ident::new(name, Span::call_site());
        let place: Expr = syn::parse_quote!(#name);
        Capture { name, mode, and: None, written: place.clone(), place, near: 0, changed_by: Default::default() }
    };
    rewrite(&mut body, Some(&index), &[capture("x", Mode::Write), capture("y", Mode::Read)]);
    quote!(#body).to_string()
}

fn held(body: &str) -> usize {
    rewritten(body).matches("__stradsap_hold (").count()
}

fn is_held(body: &str) -> bool {
    held(body) > 0
}

#[test]
fn elements_that_stay_are_held() {
    for body in [
        "{ for k in 0..n { x[u][k] += 1.0; } }",
        "{ for v in list { x[u] += v; } }",
        "{ for (k, v) in list.iter().enumerate() { x[*u as usize][k] -= y[c.1] * v; } }",
        "{ for k in 0..=n { if k > 3 { x[u][k] += 1.0; } } }",
        "{ for j in 0..5 { for k in 0..n { x[j][k] += 1.0; } } }",
        "{ for k in 0..n { x[u].a[k] = f(x[v].b); } }",
        "{ for k in 0..n { x[2 * u + 1][k] = 1; } }",
    ] {
        assert!(is_held(body), "{body}");
    }
}

#[test]
fn elements_that_follow_each_other_are_held() {
    for body in [
        "{ for k in 0..n { x[k] += 1.0; } }",
        "{ for k in u..v { x[c * n + k] += y[k]; } }",
        "{ for k in u..v { x[(k - u) as usize] += 1; } }",
        "{ for k in 0..n { if y[k] > 0 { x[k] = 1; } } }",
        "{ for k in 0..=n { x[k] += 1.0; } }",
        "{ for (k, v) in list.iter().enumerate() { x[u * n + k] += v; } }",
    ] {
        assert!(is_held(body) && rewritten(body).contains("__stradsap_any"), "{body}");
    }
}

#[test]
fn what_is_only_read_need_not_be_written() {
    let text = rewritten("{ for j in u..n { x[i * n + j] -= by * x[u * n + j]; } }");
    assert!(text.contains(", true)") && text.contains(", false)"), "{text}");
}

#[test]
fn loops_that_do_more_with_what_they_write_stay() {
    for body in [
        "{ for k in 0..n { x[k * n] += 1.0; } }",
        "{ for k in 0..n { x[y[k]] += 1.0; } }",
        "{ for k in 0..n { let u = f(k); x[u] += 1.0; } }",
        "{ for k in 0..n { x[u] += 1.0; u += 1; } }",
        "{ for k in 0..n { x[u] += 1.0; next(&mut u); } }",
        "{ for k in 0..n { x[u] += 1.0; x.swap(u, k); } }",
        "{ for k in 0..n { x[u] += 1.0; show!(u); } }",
        "{ for k in 0..n { x[u] += 1.0; assert!(x[u] > 0.0); } }",
        "{ for k in &x[u] { x[v] += k; } }",
        "{ for k in 0..n { static A: u32 = 1; x[u] += A; } }",
        "{ for (k, u) in list { x[u][k] += 1.0; } }",
        "{ for (k, v) in list { x[k] += v; } }",
        "{ for k in list.iter().enumerate() { x[k.0] += v; } }",
        "{ for k in 0..n { s += y[k]; } }",
        "{ while k < n { x[u][k] += 1.0; k += 1; } }",
        "{ let x = &mut z; for k in 0..n { x[u][k] += 1.0; } }",
        "{ for k in 0..n { x[i][k] += 1.0; } }",
        "{ for k in 0..n { x[n - k] += 1.0; } }",
    ] {
        assert!(!is_held(body), "{body}");
    }
}

/// To evaluate them once more would be to fail where the body doesn't.
#[test]
fn indices_that_may_fail_are_not_evaluated_unless_the_first_round_does() {
    for body in [
        "{ for k in 0..n { if u < n { x[u * n + k] += 1.0; } } }",
        "{ for k in 0..n { if u == n { return; } x[u * n + k] += 1.0; } }",
        "{ for k in 0..n { let Some(w) = f(k) else { continue }; x[u * n + k] += w; } }",
        "{ for k in 0..n { assert!(u < n); x[u * n + k] += 1.0; } }",
        "{ for k in 0..n { let w = f(k)?; x[u * n + k] += w; } }",
        "{ for k in 0..n { match k { 0 => x[u - 1] += 1.0, _ => {} } } }",
        "{ for k in 0..n { u < n && { x[u * n + k] += 1.0; true }; } }",
        "{ for k in 0..n { if u == n { panic!(); } x[u * n + k] += 1.0; } }",
        "{ for v in list { x[u - 1] += v; } }",
    ] {
        assert!(!is_held(body), "{body}");
    }
    for body in [
        "{ for k in 0..n { if x[u * n + k] > 0.0 { x[u * n + k] -= 1.0; } } }",
        "{ for k in 0..n { let w = f(k)?; x[u] += w; } }",
    ] {
        assert!(is_held(body), "{body}");
    }
}
