import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { after, describe, it } from "node:test";
import { transportChecks, type Check } from "gantry/testing";
import { assertCheckRejects } from "../../helpers/assert-check-rejects.js";
import { closeOpenServers, connectLineClient, LineTransport, type LineFault } from "../../helpers/line-transport.js";

function createChecks(fault?: LineFault): Check[] {
  let blockingServer: Server | undefined;
  return transportChecks({
    create: () => Promise.resolve(new LineTransport(fault)),
    createFailing: async () => {
      blockingServer = createServer().listen(0, "127.0.0.1");
      await once(blockingServer, "listening");
      return new LineTransport(fault, (blockingServer.address() as AddressInfo).port);
    },
    connect: connectLineClient,
    onDisconnect: "cancel",
    clean: async () => {
      const server = blockingServer;
      blockingServer = undefined;
      if (server) await new Promise((resolve) => server.close(resolve));
    },
    ...(fault === undefined ? {} : { timeoutMs: 400 }),
  });
}

/** Faults of transports, with the check that must fail. */
const FAULTY_TRANSPORTS: readonly (readonly [fault: LineFault, checkName: string])[] = [
  ["name", "name: not empty and without white space"],
  ["address", "address: a URL, or `stdio`, printable, on one line"],
  ["early", "start: resolves once clients can connect"],
  ["half open", "start: rejects if clients cannot connect, and leaves nothing open"],
  ["trims", "prompt: reaches the agent unchanged, and the answer returns unchanged"],
  ["buffers", "answer: is streamed"],
  ["drops", "answer: contains every piece once, in order"],
  ["forgets", "session: a prompt with a session id continues that session, also from another client"],
  ["invents", "session: an unknown id is rejected without a model request"],
  ["crosses", "two clients: each gets its own answer, regardless of the order"],
  ["swallows", "a model failure: its client gets an error, and the next prompt is answered"],
  ["runs on", "a disconnected client: its run is cancelled or continues, as the fixture states"],
  ["disturbs", "a disconnected client: the other clients are not affected"],
  ["hasty", "stop: lets running work finish until the signal aborts"],
  ["takes more", "stop: rejects new work while it waits for active work"],
  ["never cancels", "stop: cancels active work when the signal aborts, and the client's prompt settles"],
  ["never cancels", "stop: cancels active work at once if the signal has already aborted"],
  ["stops once", "stop: safe to call again, concurrently and afterwards"],
  ["never ends", "ended: resolves when the transport stops serving, not before"],
  ["ends early", "ended: resolves when the transport stops serving, not before"],
  ["stays open", "stop: afterwards nothing is open and no client is served"],
  ["waits for clients", "stop: settles while an idle client is connected"],
  ["closes the agent", "stop: does not close the agent"],
];

describe("the transport checks", () => {
  after(closeOpenServers);
  describe("on a valid transport", () => {
    for (const check of createChecks()) it(check.name, () => check.run());
  });
  describe("on an invalid transport", () => {
    for (const [fault, check] of FAULTY_TRANSPORTS)
      it(`catches "${fault}": ${check}`, () => assertCheckRejects(createChecks(fault), check));
  });
});
