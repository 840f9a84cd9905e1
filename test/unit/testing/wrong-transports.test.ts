import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { after, describe, it } from "node:test";
import { transportChecks, type Check } from "gantry/testing";
import { assertCaught } from "../../helpers/caught.js";
import { closeLeftServers, lineClient, LineTransport, type LineFault } from "../../helpers/line-transport.js";

function checksOf(fault?: LineFault): Check[] {
  let taken: Server | undefined;
  return transportChecks({
    create: () => Promise.resolve(new LineTransport(fault)),
    unable: async () => {
      taken = createServer().listen(0, "127.0.0.1");
      await once(taken, "listening");
      return new LineTransport(fault, (taken.address() as AddressInfo).port);
    },
    connect: lineClient,
    onLeave: "cancel",
    clean: async () => {
      const server = taken;
      taken = undefined;
      if (server) await new Promise((resolve) => server.close(resolve));
    },
    ...(fault === undefined ? {} : { timeoutMs: 400 }),
  });
}

/** The fault, and the check that must fail. */
const WRONG: readonly (readonly [fault: LineFault, check: string])[] = [
  ["name", "name: a word without white space, for the config"],
  ["address", "address: a URL, or `stdio`, printable, on one line"],
  ["early", "start: resolves once clients can connect"],
  ["half open", "start: rejects if clients cannot connect, and leaves nothing open"],
  ["trims", "prompt: reaches the agent unchanged, and the answer returns unchanged"],
  ["buffers", "answer: is streamed"],
  ["drops", "answer: every piece once, in order"],
  ["forgets", "session: a prompt with a session id continues that session, also from another client"],
  ["invents", "session: an unknown id is rejected without a model request"],
  ["crosses", "two clients: each gets its own answer, regardless of the order"],
  ["swallows", "a model failure: its client gets an error, and the next prompt is answered"],
  ["runs on", "a disconnected client: its run is cancelled or continues, as the fixture states"],
  ["disturbs", "a disconnected client: the other clients are not affected"],
  ["hasty", "stop: lets running work finish until the signal aborts"],
  ["takes more", "stop: rejects new work while it waits for active work"],
  ["never cancels", "stop: cancels what still runs when the signal aborts, and its client's prompt settles"],
  ["never cancels", "stop: with a signal that has aborted already, at once"],
  ["stops once", "stop: safe to call twice, at once and afterwards"],
  ["never ends", "ended: settles with the end of serving, not before"],
  ["ends early", "ended: settles with the end of serving, not before"],
  ["stays open", "stop: afterwards nothing is open and no client is served"],
  ["waits for clients", "stop: with an idle client connected"],
  ["closes the agent", "stop: leaves the agent to its owner"],
];

describe("the transport kit", () => {
  after(closeLeftServers);
  describe("lets pass what is right", () => {
    for (const check of checksOf()) it(check.name, () => check.run());
  });
  describe("catches a transport with the fault", () => {
    for (const [fault, check] of WRONG) it(`${fault}: ${check}`, () => assertCaught(checksOf(fault), check));
  });
});
