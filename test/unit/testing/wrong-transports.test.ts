import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { after, describe, it } from "node:test";
import { transportChecks, type Check } from "gantry/testing";
import { assertCaught } from "../../helpers/caught.js";
import { closeWhatIsLeft, lineClient, LineTransport, type LineFault } from "../../helpers/line-transport.js";

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

/** What is wrong, and the check that must say so. */
const WRONG: readonly (readonly [fault: LineFault, check: string])[] = [
  ["name", "name: a word that people can write into a config"],
  ["address", "address: a URL, or `stdio`, printable, on one line"],
  ["early", "start: resolves once clients can connect"],
  ["half open", "start: rejects when nobody could connect, and leaves nothing open"],
  ["trims", "prompt: reaches the agent as it was written, and the answer comes back as it was said"],
  ["buffers", "answer: streams back as it is said"],
  ["drops", "answer: every piece once, in order"],
  ["forgets", "session: a prompt that names one goes on in it, also from another client"],
  ["invents", "session: one that there is not is refused, and nothing is asked"],
  ["crosses", "two clients: each gets its own answer, whoever asked first"],
  ["swallows", "a model that fails: its client is told, and the next prompt is answered"],
  ["runs on", "a client that leaves: its run is cancelled, or goes on, as the transport says"],
  ["disturbs", "a client that leaves: the others are served as before"],
  ["hasty", "stop: lets running work finish until the signal aborts"],
  ["takes more", "stop: refuses new work while it waits for the old"],
  ["never cancels", "stop: cancels what still runs when the signal aborts, and its client's prompt settles"],
  ["never cancels", "stop: with a signal that has aborted already, at once"],
  ["stops once", "stop: safe to call twice, at once and afterwards"],
  ["never ends", "ended: settles with the end of serving, not before"],
  ["ends early", "ended: settles with the end of serving, not before"],
  ["stays open", "stop: nothing is open afterwards, and nobody is served"],
  ["waits for clients", "stop: with an idle client connected"],
  ["closes the agent", "stop: leaves the agent to its owner"],
];

describe("the transport kit", () => {
  after(closeWhatIsLeft);
  describe("lets pass what is right", () => {
    for (const check of checksOf()) it(check.name, () => check.run());
  });
  describe("catches a transport with the fault", () => {
    for (const [fault, check] of WRONG) it(`${fault}: ${check}`, () => assertCaught(checksOf(fault), check));
  });
});
