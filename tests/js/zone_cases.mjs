// What MQTT.js sees of a zone: one function per behaviour.
//
//     node zone_cases.mjs CASE VERSION URL      VERSION: 4 (3.1.1) or 5
//
// The server has the users alice, bob and eve, all with the password "secret".

import assert from "node:assert/strict";
import { once } from "node:events";
import mqtt from "mqtt";
import { run } from "./run.mjs";

const [name, versionText, url] = process.argv.slice(2);
const version = Number(versionText);
const v5 = version === 5;

/** A user who has logged in, with a queue of what it received. */
async function user(username) {
  const client = mqtt.connect(url, {
    username,
    password: "secret",
    clientId: username,
    protocolVersion: version,
    reconnectPeriod: 0,
    connectTimeout: 45_000,
  });
  const waiting = [];
  const arrived = [];
  client.on("message", (topic, payload) => {
    const message = { topic, text: payload.toString() };
    const next = waiting.shift();
    if (next) next(message);
    else arrived.push(message);
  });
  const next = () =>
    arrived.length > 0
      ? Promise.resolve(arrived.shift())
      : new Promise((resolve) => waiting.push(resolve));
  /** The next message on a topic; others before it are passed over. */
  client.until = async (topic) => {
    for (;;) {
      const message = await next();
      if (message.topic === topic) return message.text;
    }
  };
  await Promise.race([
    once(client, "connect"),
    once(client, "error").then(([error]) => Promise.reject(error)),
    once(client, "close").then(() => Promise.reject(new Error("closed before the CONNACK"))),
  ]);
  return client;
}

/** The reason code of the PUBACK; MQTT.js calls back with an error only from 0x80 on. */
function publish(client, topic, payload) {
  return new Promise((resolve) => {
    const seen = (packet) => {
      if (packet.cmd !== "puback") return;
      client.off("packetreceive", seen);
      resolve(packet.reasonCode ?? 0);
    };
    client.on("packetreceive", seen);
    client.publish(topic, payload, { qos: 1 }, () => {});
  });
}

/** The reason code of a subscription. */
function subscribe(client, filter) {
  return new Promise((resolve) => {
    client.subscribe(filter, { qos: 1 }, (error, granted, packet) => {
      resolve(packet?.granted?.[0] ?? error?.code ?? granted?.[0]?.qos);
    });
  });
}

const cases = {
  async private_messages_have_a_response_and_a_sender() {
    const [alice, bob] = [await user("alice"), await user("bob")];
    assert.equal(await subscribe(bob, "$private/from/+"), 1);
    assert.equal(await subscribe(alice, "$reply/+"), 1);
    assert.equal(await publish(alice, "$private/to/bob/1", "hello"), 0);
    assert.equal(await bob.until("$private/from/alice"), "hello");
    assert.equal(JSON.parse(await alice.until("$reply/1")).status, "delivered");
    assert.equal(await publish(alice, "$private/to/eve/2", "hello?"), v5 ? 0x10 : 0);
    assert.equal(JSON.parse(await alice.until("$reply/2")).code, 0x10);
    assert.equal(await publish(alice, "$private/from/bob", "forged"), v5 ? 0x87 : 0);
  },

  async rooms_are_joined_spoken_in_and_left() {
    const [alice, bob] = [await user("alice"), await user("bob")];
    assert.equal(await subscribe(alice, "$room/tea/#"), 1);
    assert.equal(await subscribe(bob, "$room/tea/say/+"), 1);
    assert.equal(await publish(alice, "$room/tea/say", "hello"), 0);
    assert.equal(await bob.until("$room/tea/say/alice"), "hello");
    assert.equal(JSON.parse(await alice.until("$room/tea/member/bob")).state, "here");
    await bob.unsubscribeAsync("$room/tea/say/+");
    for (;;) {
      const event = JSON.parse(await alice.until("$room/tea/event"));
      if (event.event === "left") {
        assert.equal(event.user, "bob");
        break;
      }
    }
    assert.equal(await subscribe(bob, "$room/+/say/+"), v5 ? 0x8f : 0x80);
  },

  async commands_are_called_and_properties_told() {
    const [alice, bob] = [await user("alice"), await user("bob")];
    const call = async (client, command, words) => {
      await publish(client, `$call/room.${command}/1`, JSON.stringify(words));
      return JSON.parse(await client.until("$reply/1"));
    };
    for (const client of [alice, bob]) assert.equal(await subscribe(client, "$reply/+"), 1);
    const made = await call(alice, "create", { room: "den", capacity: 2 });
    assert.deepEqual(made, { status: "done", result: { room: "den" } });
    for (const client of [alice, bob]) assert.equal(await subscribe(client, "$room/den/#"), 1);
    const set = await call(alice, "set", { room: "den", name: "map", value: "sea" });
    assert.equal(set.status, "done");
    assert.equal(JSON.parse(await bob.until("$room/den/prop/map")).value, "sea");
    const late = await call(bob, "set", { room: "den", name: "map", value: "sky", if_version: 99 });
    assert.equal(late.status, "refused");
    const found = await call(bob, "match", { properties: { map: "sea" } });
    assert.equal(found.status, "refused", "it has no free place");
  },

  async presence_shows_who_is_there() {
    const alice = await user("alice");
    assert.equal(await subscribe(alice, "$presence/+"), 1);
    const bob = await user("bob");
    assert.equal(JSON.parse(await alice.until("$presence/bob")).state, "online");
    await bob.endAsync();
    assert.equal(await alice.until("$presence/bob"), "");
  },
};

await run(cases, name);
