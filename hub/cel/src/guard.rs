//! Puts the bounds into an expression: loops count their steps, and whatever can grow a value is weighed.
//!
//! The interpreter walks the tree with no budget of its own, so calls of three functions are woven in: `@tick(n)` before each
//! step of a loop, `@held(x)` around what goes into literals and comes out of text functions, `@add(a, b)` for `a + b`.

use kube_cel::cel::common::ast::operators::{ADD, LOGICAL_AND, OPT_INDEX, OPT_SELECT};
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

/// Functions whose result can be larger than what they are given.
const GROWING: [&str; 6] = ["quote", "encode", "format", "replace", "join", "split"];

/// Weaves the bounds in. Answers how many nodes the expression has.
pub(crate) fn weave(expr: &mut IdedExpr) -> i64 {
    let mut size = 1;
    match &mut expr.expr {
        Expr::Call(call) => {
            size += call.target.as_mut().map_or(0, |target| weave(target));
            size += call.args.iter_mut().map(weave).sum::<i64>();
            if call.func_name == OPT_SELECT {
                // The interpreter's own fails where the field is missing; indexing answers none, as CEL has it.
                call.func_name = OPT_INDEX.to_owned();
            } else if call.func_name == ADD && call.args.len() == 2 && !call.args.iter().any(is_literal) {
                call.func_name = "@add".to_owned();
            } else if GROWING.contains(&call.func_name.as_str()) {
                hold(expr);
            }
        }
        Expr::Comprehension(comprehension) => {
            size += weave(&mut comprehension.iter_range) + weave(&mut comprehension.accu_init);
            let step = weave(&mut comprehension.loop_step) + weave(&mut comprehension.loop_cond);
            size += step + weave(&mut comprehension.result);
            let condition = std::mem::take(&mut comprehension.loop_cond);
            let steps = node(Expr::Literal(LiteralValue::Int(step.into())));
            comprehension.loop_cond = call(LOGICAL_AND, vec![call("@tick", vec![steps]), condition]);
        }
        Expr::Select(select) => {
            let whose = matches!(&select.operand.expr, Expr::Ident(name) if name == "authorizer");
            if whose && select.field == "requestResource" {
                // A name of its own, not a field: the interpreter finds it under its whole name.
                expr.expr = Expr::Ident("authorizer.requestResource".to_owned());
            } else {
                size += weave(&mut select.operand);
            }
        }
        Expr::List(list) => {
            for element in &mut list.elements {
                size += weave(element);
                hold(element);
            }
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    size += weave(&mut entry.key) + weave(&mut entry.value);
                    hold(&mut entry.value);
                }
            }
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
    size
}

fn hold(expr: &mut IdedExpr) {
    if !matches!(expr.expr, Expr::Literal(_)) {
        let inner = std::mem::take(expr);
        *expr = call("@held", vec![inner]);
    }
}

/// Literals, and lists of elements that were weighed when they were made.
fn is_literal(expr: &IdedExpr) -> bool {
    matches!(expr.expr, Expr::Literal(_) | Expr::List(_))
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
