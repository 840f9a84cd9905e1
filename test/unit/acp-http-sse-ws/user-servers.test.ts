import assert from "node:assert/strict";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { it } from "node:test";
import type { Agent, User } from "gantry";
import type { AcpServer } from "../../../adapters/acp-shared/index.js";
import { UserServers } from "../../../adapters/acp-http-sse-ws/user-servers.js";
import { createGate } from "../../helpers/gate.js";

it("the ACP server of a user exists while the user has clients or runs", async () => {
  const gate = createGate();
  const closedServers: string[] = [];
  let createdCount = 0;
  const createServer = () => {
    const name = `server ${createdCount++}`;
    return {
      name,
      waitForIdle: () => (name === "server 1" ? gate.wait() : Promise.resolve()),
      close: () => Promise.resolve(void closedServers.push(name)),
    } as unknown as AcpServer;
  };
  const agent = { forUser: () => Promise.resolve({}) } as unknown as Agent;
  const servers = new UserServers(agent, createServer);
  const user: User = { name: "ada", scopes: ["read"] };
  assert.throws(() => servers.open(user), TypeError);
  await servers.prepare(user);
  assert.equal(createdCount, 1, "the server for requests without a user");
  const [first, second] = [servers.open(user), servers.open(user)];
  assert.equal(first.server, second.server);
  first.release();
  second.release();
  await yieldToEventLoop();
  assert.deepEqual(closedServers, [], "a run of the user is active");
  const third = servers.open(user);
  assert.equal(third.server, first.server);
  gate.open();
  await yieldToEventLoop();
  assert.deepEqual(closedServers, [], "a client is connected");
  third.release();
  await yieldToEventLoop();
  assert.deepEqual(closedServers, ["server 1"]);
  assert.notEqual(servers.open(user).server, first.server);
  await servers.close();
  assert.deepEqual(closedServers, ["server 1", "server 0", "server 2"]);
});
