//! The functions of the CEL library, called with values.
//!
//! In: a name and what it is called with. Out: its value. The library has no meter: a call is charged for the walk over what it is
//! given, so only functions that do no more than such a walk, and make nothing larger, are called here.

use std::sync::LazyLock;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, Value};

use crate::authorizer;
use crate::meter::Meter;
use crate::operators::Outcome;

fn library() -> &'static Context<'static> {
    static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| {
        let mut context = Context::default().with_all();
        authorizer::register(&mut context);
        context
    });
    &LIBRARY
}

/// Calls a function of the library; `is_member` where the first of `args` is its receiver.
pub(super) fn call(name: &str, is_member: bool, args: Vec<Value>, meter: &Meter) -> Outcome {
    super::walked(&args, meter)?;
    plain(name, is_member, args)
}

/// The same of one small value: what a schema's formats are read with.
pub(crate) fn convert(name: &str, value: Value) -> Outcome {
    plain(name, false, vec![value])
}

fn plain(name: &str, is_member: bool, args: Vec<Value>) -> Outcome {
    let mut scope = library().new_inner_scope();
    let mut idents = Vec::with_capacity(args.len());
    for (at, value) in args.into_iter().enumerate() {
        let ident = format!("@{at}");
        scope.add_variable_from_value(ident.clone(), value);
        idents.push(IdedExpr { id: 0, expr: Expr::Ident(ident) });
    }
    let target = (is_member && !idents.is_empty()).then(|| Box::new(idents.remove(0)));
    let call = CallExpr { func_name: name.to_owned(), target, args: idents };
    Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &scope)
}
