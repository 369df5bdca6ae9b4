//! Mappings and rules in CEL: what an AuthenticationConfiguration says of claims that naming them cannot.
//!
//! Pure. In: expressions over `claims` and over `user`. Out: texts, lists of texts, or the rule that does not hold. They share the
//! limits of one admission expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_cel::{Declarations, Evaluator, Expected, Limits, Object, Program, Type, Value as Cel};
use karmada_registry::User;
use serde_json::{Value, json};

use super::IssuerOptions;

/// Compiled expressions.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    username: Option<Program>,
    groups: Option<Program>,
    uid: Option<Program>,
    extra: Vec<(String, Program)>,
    claim_rules: Vec<(Program, String)>,
    user_rules: Vec<(Program, String)>,
}

/// What expressions make of claims.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub username: Option<String>,
    pub groups: Option<Vec<String>>,
    pub uid: Option<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Expressions {
    /// Compiles those of an issuer; `Err` names the one that cannot be.
    pub(super) fn compile(options: &IssuerOptions) -> Result<Expressions, String> {
        let claims = Declarations::new().with("claims", Type::Dyn);
        let user = Declarations::new().with("user", user_type());
        let one = |at: &str, source: &str, names: &Declarations, expected| {
            Program::compile(source, names, expected).map_err(|error| format!("{at}: {source:?}: {error}"))
        };
        let mapping = |at: &str, source: &str| match source {
            "" => Ok(None),
            source => one(at, source, &claims, Expected::Any).map(Some),
        };
        let rules = |at: &str, rules: &[(String, String)], names: &Declarations| {
            let rules = rules.iter();
            rules
                .map(|(source, message)| Ok((one(at, source, names, Expected::Bool)?, message.clone())))
                .collect::<Result<Vec<_>, String>>()
        };
        let extra = options.extra.iter();
        Ok(Expressions {
            username: mapping("claimMappings.username.expression", &options.username_expression)?,
            groups: mapping("claimMappings.groups.expression", &options.groups_expression)?,
            uid: mapping("claimMappings.uid.expression", &options.uid_expression)?,
            extra: extra
                .map(|(key, source)| {
                    let at = "claimMappings.extra.valueExpression";
                    Ok((key.clone(), one(at, source, &claims, Expected::Any)?))
                })
                .collect::<Result<_, String>>()?,
            claim_rules: rules("claimValidationRules.expression", &options.claim_rules, &claims)?,
            user_rules: rules("userValidationRules.expression", &options.user_rules, &user)?,
        })
    }

    /// What they make of the claims.
    pub(super) fn of_claims(&self, claims: &Value) -> Result<Made, String> {
        let mut made = Made::default();
        let any = self.username.is_some() || self.groups.is_some() || self.uid.is_some();
        if !any && self.extra.is_empty() && self.claim_rules.is_empty() {
            return Ok(made);
        }
        let mut evaluator = Evaluator::new(Limits::default());
        evaluator.set("claims", Cel::from_json(claims));
        let text =
            |program: &Option<Program>| program.as_ref().map(|program| evaluated_text(&evaluator, program));
        made.username = text(&self.username).transpose()?;
        made.uid = text(&self.uid).transpose()?;
        made.groups = self.groups.as_ref().map(|program| texts(&evaluator, program)).transpose()?;
        for (key, program) in &self.extra {
            let values = texts(&evaluator, program)?;
            if !values.is_empty() {
                made.extra.insert(key.clone(), values);
            }
        }
        hold(&evaluator, &self.claim_rules)?;
        Ok(made)
    }

    /// Whether the rules on users hold of one.
    pub(super) fn allow(&self, user: &User) -> Result<(), String> {
        if self.user_rules.is_empty() {
            return Ok(());
        }
        let shown =
            json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra});
        let mut evaluator = Evaluator::new(Limits::default());
        evaluator.set("user", Cel::from_json(&shown));
        hold(&evaluator, &self.user_rules)
    }
}

/// A user as rules see one: `kubernetes.UserInfo`.
fn user_type() -> Type {
    let texts = || Type::List(Box::new(Type::String));
    let fields = [
        ("username", Type::String),
        ("uid", Type::String),
        ("groups", texts()),
        ("extra", Type::Map(Box::new(Type::String), Box::new(texts()))),
    ];
    let fields = fields.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
    Type::Object(Arc::new(Object { name: "kubernetes.UserInfo".to_owned(), fields }))
}

fn evaluated_text(evaluator: &Evaluator, program: &Program) -> Result<String, String> {
    let value = evaluator.value(program).map_err(|error| error.to_string())?;
    value.as_text().map(str::to_owned).ok_or_else(|| "an expression yields no text".to_owned())
}

/// A text, a list of texts, or nothing; blank ones are none.
fn texts(evaluator: &Evaluator, program: &Program) -> Result<Vec<String>, String> {
    let value = evaluator.value(program).map_err(|error| error.to_string())?;
    let all = match value.to_json() {
        Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => return Err("an expression yields neither a text nor a list of texts".to_owned()),
    };
    Ok(all.into_iter().filter(|text| !text.is_empty()).collect())
}

fn hold(evaluator: &Evaluator, rules: &[(Program, String)]) -> Result<(), String> {
    for (program, message) in rules {
        if !evaluator.bool(program).map_err(|error| error.to_string())? {
            return Err(if message.is_empty() { "a rule does not hold".to_owned() } else { message.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn expressions_make_names_groups_and_facts_and_rules_hold_them() {
        let options = IssuerOptions {
            username_expression: text("'corp:' + claims.sub"),
            groups_expression: text("claims.roles.split(',')"),
            uid_expression: text("claims.sub"),
            extra: vec![(text("acme.com/team"), text("claims.?team.orValue('')"))],
            claim_rules: vec![(text("claims.level > 2"), text("too low"))],
            user_rules: vec![(text("!user.username.startsWith('corp:system:')"), text("reserved"))],
            ..IssuerOptions::default()
        };
        let expressions = Expressions::compile(&options).unwrap();
        let of = |claims: Value| expressions.of_claims(&claims);
        let made = of(json!({"sub": "jane", "roles": "a,b", "team": "t", "level": 3})).unwrap();
        assert_eq!((made.username.as_deref(), made.uid.as_deref()), (Some("corp:jane"), Some("jane")));
        assert_eq!(made.groups, Some(vec![text("a"), text("b")]));
        assert_eq!(made.extra, BTreeMap::from([(text("acme.com/team"), vec![text("t")])]));
        assert!(of(json!({"sub": "jane", "roles": "", "level": 3})).unwrap().extra.is_empty());
        assert_eq!(of(json!({"sub": "jane", "roles": "", "level": 2})).unwrap_err(), "too low");
        assert!(of(json!({"roles": "", "level": 3})).is_err());
        let user = |name: &str| User { name: text(name), ..User::default() };
        assert_eq!(expressions.allow(&user("corp:jane")), Ok(()));
        assert_eq!(expressions.allow(&user("corp:system:x")), Err(text("reserved")));
        for bad in ["claims.", "user.name", "1 +"] {
            let options = IssuerOptions { username_expression: text(bad), ..IssuerOptions::default() };
            assert!(Expressions::compile(&options).is_err(), "{bad}");
        }
    }
}
