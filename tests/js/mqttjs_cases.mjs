// What MQTT.js sees of the server: one function per behaviour.
//
//     node mqttjs_cases.mjs CASE VERSION URL [CA]      VERSION: 4 (3.1.1) or 5
//
// A case that fails throws, and Node.js ends with a non-zero exit code.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import mqtt from "mqtt";
import { run } from "./run.mjs";

const [name, versionText, url, ca] = process.argv.slice(2);
const version = Number(versionText);
const v5 = version === 5;

/** A logged-in client with a queue of what it received. */
async function peer(clientId, options = {}) {
  const session = v5 && options.clean === false ? { sessionExpiryInterval: 600 } : {};
  const client = mqtt.connect(url, {
    clientId,
    protocolVersion: version,
    reconnectPeriod: 0,
    connectTimeout: 45_000,
    ...(ca ? { ca: readFileSync(ca) } : {}),
    ...options,
    ...(v5 ? { properties: { ...session, ...options.properties } } : {}),
  });
  const waiting = [];
  const arrived = [];
  client.on("message", (topic, payload, packet) => {
    const message = { topic, payload, packet };
    const next = waiting.shift();
    if (next) next(message);
    else arrived.push(message);
  });
  client.next = () =>
    arrived.length > 0
      ? Promise.resolve(arrived.shift())
      : new Promise((resolve) => waiting.push(resolve));
  const [connack] = await Promise.race([
    once(client, "connect"),
    once(client, "error").then(([error]) => Promise.reject(error)),
    once(client, "close").then(() => Promise.reject(new Error("closed before the CONNACK"))),
  ]);
  client.connack = connack;
  return client;
}

const cases = {
  async delivers_each_qos() {
    const sender = await peer("sender");
    for (const granted of [0, 1, 2]) {
      const receiver = await peer(`receiver${granted}`);
      await receiver.subscribeAsync("qos/#", { qos: granted });
      for (const sent of [0, 1, 2]) {
        await sender.publishAsync(`qos/${sent}`, `${sent} to ${granted}`, { qos: sent });
        const message = await receiver.next();
        assert.equal(message.topic, `qos/${sent}`);
        assert.equal(message.payload.toString(), `${sent} to ${granted}`);
        assert.equal(message.packet.qos, Math.min(sent, granted));
      }
    }
  },

  async hands_out_retained_messages() {
    const sender = await peer("sender");
    await sender.publishAsync("keep/me", "kept", { qos: 1, retain: true });
    const late = await peer("late");
    await late.subscribeAsync("keep/#");
    const message = await late.next();
    assert.equal(message.payload.toString(), "kept");
    assert.equal(message.packet.retain, true);
  },

  async delivers_large_payloads() {
    const sender = await peer("sender");
    const receiver = await peer("receiver");
    await receiver.subscribeAsync("large", { qos: 2 });
    const payload = Buffer.alloc(1_500_000, "0123456789abc");
    for (const qos of [0, 1, 2]) {
      await sender.publishAsync("large", payload, { qos });
      const message = await receiver.next();
      assert.ok(message.payload.equals(payload), `QoS ${qos} changed the payload`);
    }
  },

  async keeps_the_order_of_many_messages() {
    const sender = await peer("sender");
    const receiver = await peer("receiver");
    await receiver.subscribeAsync("many", { qos: 1 });
    for (let number = 0; number < 1000; number += 1) {
      sender.publish("many", String(number), { qos: number % 2 });
    }
    for (let number = 0; number < 1000; number += 1) {
      assert.equal((await receiver.next()).payload.toString(), String(number));
    }
  },

  async publishes_the_will_of_a_lost_client() {
    const watcher = await peer("watcher");
    await watcher.subscribeAsync("will/#", { qos: 1 });
    const lost = await peer("lost", { will: { topic: "will/lost", payload: "gone", qos: 1 } });
    lost.stream.destroy();
    const message = await watcher.next();
    assert.equal(message.payload.toString(), "gone");
  },

  async keeps_a_session_with_its_messages() {
    const first = await peer("sleeper", { clean: false });
    assert.equal(first.connack.sessionPresent, false);
    await first.subscribeAsync("session", { qos: 1 });
    await first.endAsync();
    const sender = await peer("sender");
    for (let number = 0; number < 10; number += 1) {
      await sender.publishAsync("session", String(number), { qos: 1 });
    }
    const again = await peer("sleeper", { clean: false });
    assert.equal(again.connack.sessionPresent, true);
    for (let number = 0; number < 10; number += 1) {
      assert.equal((await again.next()).payload.toString(), String(number));
    }
  },

  async answers_requests_with_properties() {
    const server = await peer("server");
    const client = await peer("client");
    await server.subscribeAsync("ask", { qos: 1 });
    await client.subscribeAsync("answers/client", { qos: 1 });
    await client.publishAsync("ask", "how?", {
      qos: 1,
      properties: {
        responseTopic: "answers/client",
        correlationData: Buffer.from([0, 1, 2]),
        contentType: "text/plain",
        userProperties: { trace: ["1", "2"] },
      },
    });
    const { packet } = await server.next();
    assert.equal(packet.properties.contentType, "text/plain");
    assert.deepEqual({ ...packet.properties.userProperties }, { trace: ["1", "2"] });
    const { responseTopic, correlationData } = packet.properties;
    await server.publishAsync(responseTopic, "so.", { qos: 1, properties: { correlationData } });
    const answer = await client.next();
    assert.equal(answer.payload.toString(), "so.");
    assert.deepEqual(answer.packet.properties.correlationData, Buffer.from([0, 1, 2]));
  },

  async assigns_topic_aliases() {
    const sender = await peer("sender", { autoAssignTopicAlias: true });
    const receiver = await peer("receiver", { properties: { topicAliasMaximum: 5 } });
    await receiver.subscribeAsync("alias/#");
    for (let round = 0; round < 3; round += 1) {
      for (let number = 0; number < 8; number += 1) {
        await sender.publishAsync(`alias/${number}`, `${round}`);
        const message = await receiver.next();
        assert.equal(message.topic, `alias/${number}`);
        assert.equal(message.payload.toString(), `${round}`);
      }
    }
  },
};

await run(cases, name);
