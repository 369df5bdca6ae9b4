//! A hub whose file is copied back while sites are listed what the copy held: until a listing is complete, a site tells of the life
//! whose Works it holds, so that the deletes of the next one wait for a person as well.

use crate::machines::{Hub, Site, noise, session};

/// A site that holds what the hub said until it was copied back, to a copy that was taken while the same start ran.
fn restored() -> (Hub, Site, (u64, std::collections::BTreeMap<String, karmada_gateway::ports::Work>)) {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    hub.put("a", "one");
    session(&mut hub, &mut site, usize::MAX);
    let copy = hub.backup();
    for key in ["a", "b", "c"] {
        hub.put(key, &noise(300));
    }
    assert!(!session(&mut hub, &mut site, usize::MAX).another_life, "nothing was copied back");
    (hub, site, copy)
}

#[test]
fn a_site_tells_of_the_life_that_it_saw_until_a_listing_is_complete() {
    let mut begun_anew = 0;
    for budget in 0..12 {
        let (mut hub, mut site, copy) = restored();
        hub.restore(copy.clone(), 7);
        for key in ["d", "e"] {
            hub.put(key, &noise(300));
        }
        assert!(session(&mut hub, &mut site, budget).another_life, "{budget}");
        let is_complete = site.ledger.timeline().unwrap() == 7;
        begun_anew += usize::from(site.ledger.position().unwrap().1 == 0);
        assert_eq!(session(&mut hub, &mut site, 0).another_life, !is_complete, "{budget}: the link broke");
        hub.restore(copy, 8);
        assert!(session(&mut hub, &mut site, usize::MAX).another_life, "{budget}: copied back once more");
        assert!(!session(&mut hub, &mut site, usize::MAX).another_life, "{budget}: it is listed everything");
    }
    assert!(begun_anew > 0, "some listings are cut half-way");
}
