// A transport of your own: a prompt a line over TCP, and the answer back. docs/writing-a-transport.md makes it a package.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { Agent, type Listening, type Transport } from "gantry";
import { OfflineProvider } from "gantry/adapters/offline-provider";

class LineTransport implements Transport {
  readonly name = "lines";

  async start(agent: Agent): Promise<Listening> {
    const cancel = new AbortController();
    const runs = new Set<Promise<void>>();
    const answer = async (socket: Socket, message: string): Promise<void> => {
      const run = await agent.run({ message, signal: cancel.signal, overflow: "merge" });
      for await (const event of run) {
        if (event.type === "token") socket.write(event.text ?? "");
        if (event.type === "error") socket.write(event.error.message);
      }
      socket.end("\n");
    };
    const server = createServer((socket) => {
      createInterface({ input: socket }).once("line", (line) => {
        const run = answer(socket, line).catch((error: unknown) => void socket.end(`${String(error)}\n`));
        runs.add(run.finally(() => runs.delete(run)));
      });
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const stop = async (signal: AbortSignal): Promise<void> => {
      signal.addEventListener("abort", () => cancel.abort());
      server.close();
      await Promise.all(runs);
    };
    const ended = once(server, "close").then(() => undefined);
    return { address: `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`, ended, stop };
  }
}

const agent = new Agent({ providers: [new OfflineProvider()] });
const listening = await new LineTransport().start(agent);
const socket = connect(Number(new URL(listening.address).port), "127.0.0.1", () => socket.write("Hello\n"));
for await (const text of socket.setEncoding("utf8")) process.stdout.write(text as string);
await listening.stop(AbortSignal.timeout(1_000));
await agent.close();
