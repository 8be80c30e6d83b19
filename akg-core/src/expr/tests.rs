//! Tests of the canonical form, and of what bounds its size.

use super::*;
use proptest::prelude::*;

fn e(text: &str) -> Expr {
    Expr::parse(text).unwrap()
}

#[test]
fn polynomials_have_one_form() {
    assert_eq!(e("2*(N + 1) - 2"), e("N*2"));
    assert_eq!(e("(A + B)*(A - B)"), e("A*A - B*B"));
    assert_eq!(e("(4*N + 3) // 4"), e("N"));
    assert_eq!(e("ceildiv(4*N + 3, 4)"), e("N + 1"));
    assert_eq!(e("(N*M) // M"), e("N"));
    assert_eq!(e("(8*N + 5) % 8"), e("5"));
}

#[test]
fn constants_compare_in_any_order() {
    let (least, most) = (i64::MIN, i64::MAX);
    for (a, b) in [(least, -3), (-3, least), (least, most), (most, least), (3, 3)] {
        let (a_is, b_is) = (Expr::constant(a), Expr::constant(b));
        assert!(
            a_is.minimum(&b_is).is(a.min(b)) && a_is.maximum(&b_is).is(a.max(b)),
            "{a} and {b}"
        );
    }
    let n = Expr::symbol("N");
    let below = &n + &Expr::constant(least);
    assert_eq!((below.maximum(&n), n.maximum(&below)), (n.clone(), n.clone()));
    assert_eq!(
        (below.minimum(&n), n.minimum(&below)),
        (below.clone(), below.clone())
    );
    assert!((&n - &(&n - &Expr::constant(least + 1))).is(least + 1));
    assert!((Expr::constant(-1) - Expr::constant(least)).is(most));
}

#[test]
fn division_floors() {
    assert!(e("-7 // 2").is(-4) && e("-7 % 2").is(1) && e("ceildiv(-7, 2)").is(-3));
    assert!(e("7 // -2").is(-4) && e("7 % -2").is(-1));
}

#[test]
fn bounds_hold_a_tile_offset() {
    let range = |name: &str| match name {
        "m" => Some((0, 7)),
        "k" => Some((-1, 3)),
        _ => None,
    };
    assert_eq!(e("m*64 - k").bounds(&range), Some((-3, 449)));
    assert_eq!(e("m*N").bounds(&range), None);
}

fn arbitrary() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        (-9i64..10).prop_map(Expr::constant),
        prop::sample::select(vec!["M", "N", "k"]).prop_map(Expr::symbol),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        (0..7usize, inner.clone(), inner).prop_map(|(op, a, b)| match op {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a.floor_div(&Expr::constant(3)),
            4 => a.modulo(&Expr::constant(5)),
            5 => a.minimum(&b),
            _ => a.ceil_div(&Expr::constant(4)),
        })
    })
}

proptest! {
    #[test]
    fn printing_parses_back(a in arbitrary()) {
        prop_assert_eq!(Expr::parse(&a.to_string()).unwrap(), a);
    }

    #[test]
    fn binding_agrees_with_evaluation(a in arbitrary(), m in 0i64..9, n in 0i64..9, k in -5i64..5) {
        let all = Bindings::from([("M".into(), m), ("N".into(), n), ("k".into(), k)]);
        let value = a.eval(&all).unwrap();
        prop_assert_eq!(a.bind(&all).as_const(), Some(value));
        let (lo, hi) = a.bounds(&|s| all.get(s).map(|v| (*v - 1, *v + 1))).unwrap();
        prop_assert!(lo <= value && value <= hi);
    }
}

#[test]
fn deep_long_and_doubling_texts_are_errors_that_name_the_limit() {
    let deep = |open: &str, close: &str| format!("{}N{}", open.repeat(20_000), close.repeat(20_000));
    let cases = [
        (deep("(", ")"), "256 levels"),
        (deep("-", ""), "256 levels"),
        (deep("(-", ")"), "256 levels"),
        (deep("min(", ",1)"), "bytes"),
        (deep("min(M,", ")").chars().take(9_000).collect(), "256 levels"),
        (
            format!("{}N{}", "max(M*2,".repeat(100), ")".repeat(100)),
            "64 levels",
        ),
        (format!("{}1", "(A+B+C+D+E)*".repeat(40)), "1024 terms"),
        (format!("{}1", "(A+B+C+D+E)*".repeat(4)), "at most 128"),
        (
            (0..600).map(|i| format!("x{i}")).collect::<Vec<_>>().join("+"),
            "1024 terms",
        ),
        ("9223372036854775807*N + 9*N".into(), "64-bit"),
        ("9223372036854775807 * 2".into(), "64-bit"),
        ("-9223372036854775808 // -1".into(), "64-bit"),
        ("99999999999999999999".into(), "64 bits"),
    ];
    for (text, limit) in cases {
        let error = Expr::parse(&text).unwrap_err();
        assert!(error.message().contains(limit), "{limit}: {error}");
        assert!(error.message().len() < 400, "{error}");
    }
}

#[test]
fn excess_absorbs_and_is_never_equal_to_another() {
    let overflow = || e("9223372036854775807") * 2;
    let (a, b) = (overflow(), overflow());
    assert!(a.excess().is_some());
    assert_ne!(a, b);
    let met = [
        &a - &a,
        &a * &Expr::constant(0),
        a.floor_div(&a),
        e("N").minimum(&a),
        a.modulo(&3.into()),
        e("N*M").substitute(&|_| Some(a.clone())),
    ];
    for met in met {
        assert!(met.check().is_err(), "{met}");
        assert!(met.eval(&Bindings::new()).is_err());
        assert_eq!(met.bounds(&|_| Some((0, 1))), None);
    }
}

#[test]
fn repeated_doubling_ends_in_excess() {
    let mut value = e("N");
    for _ in 0..64 {
        value = value.minimum(&(&value + &e("M"))) + value.floor_div(&3.into());
    }
    assert!(value.excess().is_some());
}

#[test]
fn the_ends_of_64_bits_are_exact() {
    let none = Bindings::new();
    for text in [
        "-9223372036854775808",
        "9223372036854775807",
        "N + -9223372036854775808*M",
    ] {
        assert_eq!(e(&e(text).to_string()), e(text));
    }
    assert_eq!(
        e("-9223372036854775808 // 3").eval(&none).unwrap(),
        i64::MIN.div_euclid(3)
    );
    assert_eq!(e("-9223372036854775808 % 3").eval(&none).unwrap(), 1);
    let all = Bindings::from([("a".into(), i64::MIN), ("b".into(), -1), ("c".into(), 3)]);
    assert!(e("a // b").eval(&all).is_err());
    assert_eq!(e("a % b").eval(&all).unwrap(), 0);
    assert_eq!(e("ceildiv(a, c)").eval(&all).unwrap(), -(i64::MAX / 3));
    let wide = |_: &str| Some((i64::MIN, i64::MAX));
    assert_eq!(e("a*b*c*a").bounds(&wide), None);
}
