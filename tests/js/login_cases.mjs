// What MQTT.js sees of logins: one function per behaviour.
//
//     node login_cases.mjs CASE VERSION URL      VERSION: 4 (3.1.1) or 5
//
// The server knows ann, whose password is "secret", whose token is in LOGIN_TOKEN, and who may
// publish and subscribe below yes/.

import assert from "node:assert/strict";
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from "node:crypto";
import mqtt from "mqtt";
import { run } from "./run.mjs";

const [name, versionText, url] = process.argv.slice(2);
const version = Number(versionText);
const token = process.env.LOGIN_TOKEN;

/** The client, and the reason code of the answer to its CONNECT. */
async function login(options, handleAuth) {
  const client = mqtt.connect(url, {
    clientId: "c",
    protocolVersion: version,
    reconnectPeriod: 0,
    connectTimeout: 45_000,
    ...options,
  });
  if (handleAuth) client.handleAuth = handleAuth;
  const code = await new Promise((resolve) => {
    client.once("connect", (connack) => resolve(connack.reasonCode ?? connack.returnCode));
    client.once("error", (error) => resolve(error.code));
  });
  return [client, code];
}

/** The client's side of SCRAM (RFC 5802), by what Node.js brings. */
function scram(mechanism, password) {
  const digest = { "SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512" }[mechanism];
  const bytes = digest === "sha256" ? 32 : 64;
  const hmac = (key, text) => createHmac(digest, key).update(text).digest();
  const bare = `n=ann,r=${randomBytes(18).toString("base64").replaceAll(",", "x")}`;
  const exchange = {
    isProved: false,
    options: {
      properties: {
        authenticationMethod: mechanism,
        authenticationData: Buffer.from(`n,,${bare}`),
      },
    },
  };
  let expected;
  exchange.check = (data) => {
    const signature = Buffer.from(data.toString().slice(2), "base64");
    exchange.isProved = timingSafeEqual(signature, expected);
  };
  exchange.handleAuth = (packet, callback) => {
    const first = packet.properties.authenticationData.toString();
    const fields = Object.fromEntries(
      first.split(",").map((field) => [field[0], field.slice(2)]),
    );
    const salt = Buffer.from(fields.s, "base64");
    const salted = pbkdf2Sync(password, salt, Number(fields.i), bytes, digest);
    const clientKey = hmac(salted, "Client Key");
    const storedKey = createHash(digest).update(clientKey).digest();
    const withoutProof = `c=biws,r=${fields.r}`;
    const said = `${bare},${first},${withoutProof}`;
    const signature = hmac(storedKey, said);
    const proof = Buffer.from(clientKey.map((byte, at) => byte ^ signature[at]));
    expected = hmac(hmac(salted, "Server Key"), said);
    callback(undefined, {
      cmd: "auth",
      reasonCode: 24,
      properties: {
        authenticationMethod: mechanism,
        authenticationData: Buffer.from(`${withoutProof},p=${proof.toString("base64")}`),
      },
    });
  };
  return exchange;
}

/** The code that refuses who does not prove to be somebody. */
const WRONG = version === 5 ? 0x86 : 4;

const cases = {
  async a_password_and_a_token_let_in() {
    for (const password of ["secret", token]) {
      const [client, code] = await login({ username: "ann", password });
      assert.equal(code, 0);
      await client.endAsync();
    }
  },

  async wrong_names_and_passwords_look_the_same() {
    for (const [username, password] of [
      ["ann", "wrong"],
      ["nobody", "secret"],
      ["ann", token.slice(1)],
      ["nobody", token],
    ]) {
      const [, code] = await login({ username, password });
      assert.equal(code, WRONG, username);
    }
  },

  async rights_hold() {
    const [client, code] = await login({ username: "ann", password: "secret" });
    assert.equal(code, 0);
    await client.subscribeAsync("yes/#", { qos: 1 });
    await client.subscribeAsync("#", { qos: 1 });
    await assert.rejects(client.subscribeAsync("no/#", { qos: 1 }));
    await client.publishAsync("yes/a", "x", { qos: 1 });
    const refused = client.publishAsync("no/a", "x", { qos: 1 });
    // 3.1.1 has no answer for a publish that is not permitted.
    if (version === 5) await assert.rejects(refused);
    else await refused;
  },

  async scram_lets_in_without_showing_the_password() {
    for (const mechanism of ["SCRAM-SHA-256", "SCRAM-SHA-512"]) {
      const exchange = scram(mechanism, "secret");
      const [client, code] = await login(exchange.options, (packet, callback) =>
        exchange.handleAuth(packet, callback),
      );
      assert.equal(code, 0, mechanism);
      await client.publishAsync("yes/a", "x", { qos: 1 });
      await client.endAsync();
    }
  },

  async scram_refuses_a_wrong_password() {
    const exchange = scram("SCRAM-SHA-256", "wrong");
    const [, code] = await login(exchange.options, (packet, callback) =>
      exchange.handleAuth(packet, callback),
    );
    assert.equal(code, WRONG);
  },
};

await run(cases, name);
