//! What lines do: they slow down, hang, break, and hurt a write that is still to come.
//!
//! In: a site whose line it is. Out: orders to the network.

use std::time::Duration;

use super::Trouble;
use crate::network::{Dials, Harm, Weather};
use crate::pipe::{Fault, FaultKind, Towards};
use crate::world::World;

impl World {
    pub(super) fn line_does(&mut self, trouble: Trouble, at: usize) {
        let site = self.places[at].agent.name.clone();
        match trouble {
            Trouble::Weather => {
                let dials = *self.dice.one(&[Dials::Through, Dials::Through, Dials::Refused, Dials::Hang]);
                let delay = Duration::from_millis(*self.dice.one(&[1, 20, 200, 800, 5_000, 40_000]));
                let slowness = Duration::from_millis(*self.dice.one(&[0, 0, 0, 50, 1_000]));
                let weather = Weather { dials, delay, slowness };
                self.log.line(format_args!("{site} has {weather:?}"));
                self.network.set_weather(&site, weather);
                if dials != Dials::Through {
                    let harm = *self.dice.one(&[Harm::Reset, Harm::Silence]);
                    self.network.harm(&site, harm);
                }
            }
            Trouble::Harm => {
                let late = Duration::from_secs(self.dice.between(1, 120));
                let harm = *self.dice.one(&[Harm::Reset, Harm::Silence, Harm::HubHearsLate(late)]);
                self.log.line(format_args!("{site} meets {harm:?}"));
                self.network.harm(&site, harm);
            }
            _ => {
                let towards = *self.dice.one(&[Towards::Hub, Towards::Agent]);
                let kinds =
                    [FaultKind::Cut, FaultKind::Cut, FaultKind::Silence, FaultKind::Flip, FaultKind::Crash];
                let kind = *self.dice.one(&kinds);
                let fault = Fault { after: self.dice.between(1, 40), kind, at: self.dice.between(0, 999) };
                self.log.line(format_args!("{site} meets {fault:?} towards {towards:?}"));
                self.network.fault(&site, towards, fault);
            }
        }
    }
}
