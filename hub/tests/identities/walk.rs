//! One site's life, and what each credential opens at each step: it joins, another key wants its name, a person gives the name to
//! that key, the cluster is removed, a certificate ends. Over HTTP, every route that the hub serves; over gRPC, sessions and joins.
//! Beside them come those whom others vouch for: bearers of an OpenID Connect issuer's tokens, and whom a proxy in front names.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use karmada_certs::{ClientKey, KeyedCertificate, Subject};

use crate::vouching::Vouching;
use crate::world::{Answer, HOUR, Https, TOKEN, World, until};

/// after which step, who, over HTTP, opening a session, joining again as north.
const WALK: &str = "
joined    owner     401      welcome       granted
joined    thief     401      REVOKED       pending
joined    nobody    40x      Unauthorized  -
joined    token     403      Unauthorized  -
joined    admin     200      UNREGISTERED  -
joined    account   403      Unauthorized  -
joined    signed    403      UNREGISTERED  -
joined    vouched   403      Unauthorized  -
joined    late      401      Unauthorized  -
joined    elsewhere 401      Unauthorized  -
joined    foreign   401      Unauthorized  -
joined    forged    401      Unauthorized  -
joined    fresh     401      Unauthorized  -
joined    proxied   403      Unauthorized  -
joined    mastered  200      Unauthorized  -
joined    misnamed  401      Unauthorized  -
joined    silent    40x      Unauthorized  -
joined    claimed   40x      Unauthorized  -
joined    boasting  403      UNREGISTERED  -
rotated   fresh     403      Unauthorized  -
rotated   vouched   401      Unauthorized  -
renewed   renewed   401      welcome       -
renewed   owner     401      welcome       granted
asked     owner     401      welcome       granted
asked     thief     401      REVOKED       pending
adopted   owner     401      REVOKED       pending
adopted   renewed   401      REVOKED       -
adopted   thief     401      welcome       granted
adopted   nobody    40x      Unauthorized  -
removed   thief     401      UNREGISTERED  -
removed   owner     401      UNREGISTERED  -
removed   renewed   401      UNREGISTERED  -
ended     thief     401      REVOKED       -
ended     admin     401      UNREGISTERED  -
ended     account   401      Unauthorized  -
ended     signed    401      UNREGISTERED  -
ended     nobody    40x      Unauthorized  -
ended     fresh     401      Unauthorized  -
ended     proxied   401      Unauthorized  -
ended     mastered  401      Unauthorized  -
";

struct Walk {
    world: World,
    vouching: Vouching,
    /// The certificates of proxies, made once: they end while the walk goes on.
    proxies: BTreeMap<&'static str, KeyedCertificate>,
    owner: ClientKey,
    thief: ClientKey,
    admin: KeyedCertificate,
    /// What a CertificateSigningRequest gives: a name, and no group that a role is bound to.
    signed: KeyedCertificate,
    /// What the owner was given over its stream.
    renewed: Mutex<Option<KeyedCertificate>>,
    /// The token of a ServiceAccount that no role is bound to, good for an hour.
    account: String,
    routes: Vec<(&'static str, String)>,
}

impl Walk {
    async fn begin() -> Walk {
        let vouching = Vouching::start().await;
        let world = World::with(|settings| vouching.believed(settings)).await;
        let proxies = ["proxied", "mastered", "silent", "misnamed"];
        let proxies = proxies.map(|who| (who, vouching.certificate(who).unwrap())).into();
        let admin = world.administrator(HOUR);
        let mut https = world.https(Some(&admin)).await;
        let routes = routes(&mut https).await;
        assert!(routes.len() > 300, "{} routes", routes.len());
        let account = token_of_account(&mut https).await;
        let jane = Subject { common_name: "jane".to_owned(), organizations: Vec::new() };
        let signing = world.hub.data.authorities();
        let signed = signing.signing().issue_client_with_key(&jane, HOUR, jiff::Timestamp::now()).unwrap();
        let (owner, thief) = (ClientKey::generate().unwrap(), ClientKey::generate().unwrap());
        Walk {
            world,
            vouching,
            proxies,
            owner,
            thief,
            admin,
            signed,
            renewed: Mutex::default(),
            account,
            routes,
        }
    }

    fn key(&self, who: &str) -> Option<&ClientKey> {
        match who {
            "owner" => Some(&self.owner),
            "thief" => Some(&self.thief),
            _ => None,
        }
    }

    /// The certificate: for keys, whatever the hub's CA would sign, so that it is the key that decides.
    fn certificate(&self, who: &str) -> Option<KeyedCertificate> {
        match who {
            "admin" => Some(self.admin.clone()),
            "signed" | "boasting" => Some(self.signed.clone()),
            "renewed" => self.renewed.lock().unwrap().clone(),
            _ => match self.key(who) {
                Some(key) => Some(self.world.issue("north", key, HOUR)),
                None => self.proxies.get(who).cloned(),
            },
        }
    }

    /// What each request says of who asks.
    fn headers(&self, who: &str) -> Vec<(&'static str, String)> {
        let bearer = match who {
            "token" => Some(TOKEN.to_owned()),
            "account" => Some(self.account.clone()),
            _ => self.vouching.token(who),
        };
        let mut all = self.vouching.headers(who);
        all.extend(bearer.map(|token| ("authorization", format!("Bearer {token}"))));
        all
    }

    async fn step(&self, step: &str) {
        let world = &self.world;
        match step {
            "joined" => drop(world.join("north", "u1", &self.owner).await.certificate(&self.owner)),
            "renewed" => {
                let certificate = world.issue("north", &self.owner, HOUR);
                let mut session = world.connect(&certificate, "north").await;
                session.welcomed().await;
                let given = session.renew("north", &self.owner).await.unwrap();
                *self.renewed.lock().unwrap() = Some(self.owner.with_certificate(given));
            }
            // The issuer is asked for its keys every ten seconds at most.
            "rotated" => {
                self.vouching.rotate();
                let mut https = world.https(None).await;
                for _ in 0..150 {
                    if https.send_as("GET", "/api", &self.headers("fresh")).await.unwrap().0 != 401 {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                panic!("the issuer's new key is not known");
            }
            // While the session of the row before lingers, it is refused at once.
            "asked" => assert_eq!(self.joins_until("thief", "u2", "pending").await, "pending"),
            "adopted" => {
                world.annotate("north", "edge.karmada.io/adopt-key", &self.thief.fingerprint()).await;
                let adopted = || world.cluster("north").unwrap()["spec"]["id"] == "u2";
                until("the adoption", adopted).await;
            }
            "removed" => {
                world.delete_cluster("north").await;
                until("the removal", || world.cluster("north").is_none()).await;
            }
            "ended" => {
                world.join("north", "u2", &self.thief).await.certificate(&self.thief);
                world.pass(2 * 3600);
            }
            other => panic!("{other}"),
        }
    }

    /// What all routes say: one word, or the routes that say something else.
    async fn over_http(&self, who: &str, expected: &str) -> String {
        let certificate = self.certificate(who);
        let mut https = self.world.https(certificate.as_ref()).await;
        let headers = self.headers(who);
        let mut wrong = BTreeMap::new();
        for (method, path) in &self.routes {
            // An administrator would change things; that he may is seen by reading.
            if expected == "200" && *method != "GET" {
                continue;
            }
            let status = https.send_as(method, path, &headers).await.unwrap().0;
            // Whoever is somebody may ask about that, and what there is.
            let about_oneself =
                path.contains("/selfsubject") || path == "/api" || path.starts_with("/openapi");
            let right = match expected {
                "401" => status == 401,
                "403" => [403, 405].contains(&status) || about_oneself,
                "40x" => [401, 403, 405].contains(&status),
                _ => ![401, 403].contains(&status),
            };
            if !right {
                wrong.insert(format!("{method} {path}"), status);
            }
        }
        if wrong.is_empty() { expected.to_owned() } else { format!("{wrong:?}") }
    }

    async fn over_the_stream(&self, who: &str) -> String {
        self.world.knock(self.certificate(who).as_ref(), &self.headers(who), "north").await
    }

    /// Asks until it is answered so, or for five seconds: sessions of earlier rows end in their own time.
    async fn joins_until(&self, who: &str, uid: &str, expected: &str) -> String {
        let mut said = String::new();
        for _ in 0..50 {
            said = self.joins_again(who, uid).await;
            if said == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        said
    }

    async fn joins_again(&self, who: &str, uid: &str) -> String {
        let Some(key) = self.key(who) else { return "-".to_owned() };
        match self.world.join("north", uid, key).await {
            Answer::Granted(_) => "granted".to_owned(),
            Answer::Pending => "pending".to_owned(),
            Answer::Refused(refusal) => refusal.code().as_str_name().to_owned(),
        }
    }
}

async fn token_of_account(admin: &mut Https) -> String {
    let headers = [("content-type", "application/json")];
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let made = admin.send_body("POST", accounts, &headers, br#"{"metadata":{"name":"walker"}}"#).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let wish = br#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}"#;
    let (code, answer) = admin.send_body("POST", &format!("{accounts}/walker/token"), &headers, wish).await;
    assert_eq!(code, 201, "{answer}");
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// Every verb at every resource that is served, at north's own objects where there may be some.
async fn routes(admin: &mut Https) -> Vec<(&'static str, String)> {
    let mut roots = vec!["/api/v1".to_owned()];
    let groups = admin.send("GET", "/apis").await.unwrap().1;
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            roots.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    let mut all =
        vec![("GET", "/metrics".to_owned()), ("GET", "/openapi/v2".to_owned()), ("GET", "/api".to_owned())];
    for root in roots {
        let found = admin.send("GET", &root).await.unwrap().1;
        for resource in found["resources"].as_array().unwrap() {
            let (name, sub) = match resource["name"].as_str().unwrap().split_once('/') {
                Some((name, sub)) => (name.to_owned(), format!("/{sub}")),
                None => (resource["name"].as_str().unwrap().to_owned(), String::new()),
            };
            let place = if resource["namespaced"] == true { "/namespaces/karmada-es-north" } else { "" };
            if sub.is_empty() {
                all.extend(["GET", "POST"].map(|method| (method, format!("{root}{place}/{name}"))));
            }
            let methods: &[&str] =
                if sub.is_empty() { &["GET", "PUT", "PATCH", "DELETE"] } else { &["GET", "PUT", "PATCH"] };
            all.extend(methods.iter().map(|method| (*method, format!("{root}{place}/{name}/north{sub}"))));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_take_over_revoke_expire() {
    let walk = Walk::begin().await;
    let (mut done, mut wrong) = (String::new(), Vec::new());
    for row in WALK.lines().filter(|line| !line.is_empty()) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        let [step, who, http, stream, join] = cells[..] else { panic!("{row}") };
        if step != done {
            walk.step(step).await;
            step.clone_into(&mut done);
        }
        let uid = if who == "owner" { "u1" } else { "u2" };
        if join != "-" {
            let said = walk.joins_until(who, uid, join).await;
            if said != join {
                wrong.push(format!("{step} {who} joins: {said}, not {join}"));
            }
        }
        let said = walk.over_http(who, http).await;
        if said != http {
            wrong.push(format!("{step} {who} over HTTP: {said}"));
        }
        let said = walk.over_the_stream(who).await;
        if said != stream {
            wrong.push(format!("{step} {who} connects: {said}, not {stream}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
