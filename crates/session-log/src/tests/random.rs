//! Random records. What they hold is never freed, since they borrow it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use stentor_mqtt::{PacketId, QoS};

use crate::*;

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn yes(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Small and large ones alike, up to a bound.
    fn up_to(&mut self, max: u64) -> u64 {
        let bits = self.below(65) as u32;
        let value = self.next().checked_shr(64 - bits).unwrap_or(0);
        match self.below(8) {
            0 => max,
            _ => value.min(max),
        }
    }

    fn u32(&mut self) -> u32 {
        self.up_to(u64::from(u32::MAX)) as u32
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.yes().then(|| make(self))
    }

    fn list<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> List<'static, T> {
        let items: Vec<T> = (0..self.below(4)).map(|_| make(self)).collect();
        List::new(Box::leak(items.into_boxed_slice()))
    }

    fn text(&mut self) -> &'static str {
        let letters = ["a", "b/", "+", "#", "$x", "ä", "…", " "];
        let text: String = (0..self.below(9))
            .map(|_| letters[self.below(8) as usize])
            .collect();
        Box::leak(text.into_boxed_str())
    }

    fn name_text(&mut self) -> &'static str {
        ["g", "group", "ä"][self.below(3) as usize]
    }

    fn bytes(&mut self) -> &'static [u8] {
        let bytes: Vec<u8> = (0..self.below(9)).map(|_| self.next() as u8).collect();
        Box::leak(bytes.into_boxed_slice())
    }

    fn qos(&mut self) -> QoS {
        [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][self.below(3) as usize]
    }

    pub(super) fn packet_id(&mut self) -> PacketId {
        PacketId::new(self.up_to(65_534) as u16 + 1).unwrap()
    }

    fn name(&mut self) -> Name {
        Name {
            file: self.u32().max(1),
            offset: self.u32(),
        }
    }

    fn filter(&mut self) -> Filter<'static> {
        Filter {
            group: self.maybe(Self::name_text),
            filter: self.text(),
        }
    }

    fn share(&mut self) -> Share<'static> {
        Share {
            group: self.name_text(),
            filter: self.text(),
        }
    }

    fn session(&mut self) -> Session<'static> {
        Session {
            number: self.u32(),
            zone: self.u32(),
            client_id: self.text(),
            user: self.maybe(Self::text),
            guest: self.maybe(Self::next),
            expiry_secs: self.u32(),
            has_no_account: self.maybe(|_| ()).is_some(),
            roles_are_of_credential: self.maybe(|_| ()).is_some(),
            roles: self.list(Self::text),
            quotas: Quotas {
                messages_per_sec: self.maybe(Self::u32),
                bytes_per_sec: self.maybe(|it| it.up_to(u64::MAX)),
                subscriptions: self.maybe(Self::u32),
                queued_bytes: self.maybe(|it| it.up_to(u64::MAX)),
            },
        }
    }

    fn subscription(&mut self) -> Subscription<'static> {
        Subscription {
            number: self.u32(),
            filter: self.filter(),
            qos: self.qos(),
            no_local: self.yes(),
            retain_as_published: self.yes(),
            snapshot: self.yes(),
            room: self.yes(),
            identifier: self.maybe(|it| it.identifier().0),
            interval_micros: self.up_to(u64::MAX),
        }
    }

    fn identifier(&mut self) -> Identifier {
        Identifier(self.up_to(u64::from(IDENTIFIER_MAX) - 1) as u32 + 1)
    }

    fn will(&mut self) -> Will<'static> {
        Will {
            number: self.u32(),
            topic: self.text(),
            properties: self.bytes(),
            payload: self.bytes(),
            qos: self.qos(),
            retain: self.yes(),
            delay_secs: self.u32(),
            expiry_secs: self.maybe(Self::u32),
        }
    }

    fn body(&mut self) -> Body<'static> {
        Body {
            zone: self.u32(),
            publisher: self.up_to(u64::MAX),
            qos: self.qos(),
            retain: self.yes(),
            topic: self.text(),
            properties: self.bytes(),
            payload: self.bytes(),
            expires_at_ms: self.maybe(|it| it.up_to(MILLIS_MAX)),
            sequence: self.up_to(u64::MAX),
        }
    }

    fn member(&mut self) -> Member<'static> {
        Member {
            shard: self.below(64) as u8,
            share: self.share(),
        }
    }

    fn elsewhere(&mut self) -> Elsewhere<'static> {
        let elsewhere = Elsewhere {
            shards: self.up_to(u64::MAX),
            route: self.maybe(Self::text).filter(|text| !text.is_empty()),
            members: self.list(Self::member),
        };
        match elsewhere.is_nobody() {
            // A route without anybody is not written.
            true => Elsewhere::default(),
            false => elsewhere,
        }
    }

    fn terms(&mut self) -> Terms<'static> {
        Terms {
            qos: [QoS::AtLeastOnce, QoS::ExactlyOnce][self.below(2) as usize],
            retain: self.yes(),
            held: self.yes(),
            conflated: self.u32(),
            identifiers: self.list(Self::identifier),
            share: self.maybe(Self::share),
        }
    }

    fn recipients(&mut self) -> List<'static, Group<'static>> {
        self.list(|it| Group {
            terms: it.terms(),
            numbers: it.list(Self::u32),
        })
    }

    fn arrival(&mut self) -> Arrival {
        Arrival {
            number: self.u32(),
            packet_id: self.packet_id(),
        }
    }

    fn delivery(&mut self) -> Delivery {
        Delivery {
            number: self.u32(),
            delivery: self.up_to(DELIVERY_MAX),
        }
    }

    fn held(&mut self) -> Held {
        Held {
            number: self.u32(),
            name: self.name(),
        }
    }

    fn front(&mut self) -> Front {
        let front = self.up_to(DELIVERY_MAX);
        Front {
            number: self.u32(),
            front,
            sent: front + self.up_to(DELIVERY_MAX - front),
        }
    }

    fn queue(&mut self) -> Queue<'static> {
        let mut least = 0;
        let shares: List<'static, Share<'static>> = self.list(Self::share);
        let places = shares.len() as u64;
        Queue {
            number: self.u32(),
            next: self.up_to(DELIVERY_MAX),
            sent: self.up_to(DELIVERY_MAX),
            shares,
            owed: self.list(|it| {
                let delivery = least + it.up_to(1 << 40);
                least = delivery + 1;
                Owed {
                    delivery,
                    packet_id: it.maybe(Self::packet_id),
                    debt: match it.yes() {
                        true => Debt::Release,
                        false => {
                            let place = (places > 0 && it.yes()).then(|| it.below(places) as u32);
                            let terms = Terms {
                                share: None,
                                ..it.terms()
                            };
                            Debt::Message(it.name(), terms, place)
                        }
                    },
                }
            }),
            held: self.list(|it| HeldBack {
                name: it.name(),
                terms: it.terms(),
            }),
        }
    }

    fn room_name(&mut self) -> RoomName<'static> {
        RoomName {
            zone: self.u32(),
            room: self.text(),
        }
    }

    pub(super) fn record(&mut self) -> Record<'static> {
        let number = self.u32();
        match self.below(33) {
            0 => Record::Session(self.session()),
            1 => Record::Base(self.session()),
            2 => Record::Adopted {
                number,
                origin: Origin {
                    generation: self.u32(),
                    shard: self.up_to(65_535) as u16,
                    number: self.u32(),
                },
            },
            3 => Record::End { number },
            4 => Record::Here { number },
            5 => Record::Away(Away {
                number,
                since_ms: self.up_to(MILLIS_MAX),
                until_ms: self.maybe(|it| it.up_to(MILLIS_MAX)),
                will_at_ms: self.maybe(|it| it.up_to(MILLIS_MAX)),
            }),
            6 => Record::Sub(self.subscription()),
            7 => Record::Unsub {
                number,
                filter: self.filter(),
            },
            8 => Record::Done {
                number,
                filter: self.filter(),
            },
            9 => Record::Message(Message {
                body: self.body(),
                arrival: self.maybe(Self::arrival),
                elsewhere: self.elsewhere(),
                recipients: self.recipients(),
            }),
            10 => Record::Carry(Carry {
                name: self.name(),
                body: self.body(),
                elsewhere: self.elsewhere(),
            }),
            11 => Record::Owe(Owe {
                name: self.name(),
                from: self.below(64) as u8,
                sent_by: self.maybe(Self::name),
                recipients: self.recipients(),
            }),
            12 => Record::Heard(self.list(|it| Mark {
                shard: it.below(64) as u8,
                name: it.name(),
            })),
            13 => Record::Again(Again {
                member: self.member(),
                names: self.list(Self::name),
            }),
            14 => Record::Acked(self.list(Self::front)),
            15 => Record::Gone(self.delivery()),
            16 => Record::LetGo {
                held: self.held(),
                conflated: self.u32(),
            },
            17 => Record::Dropped(self.held()),
            18 => Record::Sent {
                delivery: self.delivery(),
                packet_id: self.packet_id(),
            },
            19 => Record::Received(self.delivery()),
            20 => Record::Arrived(self.arrival()),
            21 => Record::Released(self.arrival()),
            22 => Record::Will(self.will()),
            23 => Record::WillGone { number },
            24 => Record::Room(Room {
                name: self.room_name(),
                is_base: self.yes(),
                owner: self.maybe(Self::text),
                capacity: self.maybe(Self::u32),
                locked: self.yes(),
                history_count: self.up_to(u64::MAX),
                history_bytes: self.up_to(u64::MAX),
                history_age_secs: self.maybe(|it| it.up_to(u64::MAX)),
                version: self.up_to(u64::MAX),
            }),
            25 => Record::RoomProperty(RoomProperty {
                name: self.room_name(),
                property: self.text(),
                value: self.maybe(Self::bytes),
                version: self.up_to(u64::MAX),
                by: self.maybe(Self::text),
                lock: self.maybe(Self::text),
            }),
            26 => Record::RoomMember(RoomMember {
                name: self.room_name(),
                user: self.text(),
                is_in: self.yes(),
            }),
            27 => Record::RoomGone(self.room_name()),
            28 => Record::Spooled(Spooled {
                number,
                first: self.u32().into(),
                count: self.below(64) as u8 + 1,
                place: Place {
                    file: self.u32().max(1),
                    at: self.u32() as u16,
                    len: self.u32() as u16,
                },
            }),
            29 => Record::Owner {
                number,
                mark: NonZeroU64::new(self.next()).unwrap_or(NonZeroU64::MIN),
            },
            30 => {
                let Queue {
                    shares, owed, held, ..
                } = self.queue();
                Record::Part(Part {
                    number,
                    place: self.u32(),
                    shares,
                    owed,
                    held,
                })
            }
            31 => {
                let from = self.up_to(DELIVERY_MAX);
                Record::Parts(Parts {
                    number,
                    count: self.u32(),
                    from,
                    to: from + self.up_to(DELIVERY_MAX - from),
                })
            }
            _ => Record::Queue(self.queue()),
        }
    }
}
