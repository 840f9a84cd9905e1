// Your own transport: one prompt per line over TCP. docs/writing-a-transport.md turns it into a package.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { Agent } from "gantry";
import { ListeningBase, type Transport } from "gantry/plugin";
import { OfflineProvider } from "gantry/adapters/offline-provider";

const linesTransport: Transport = {
  name: "lines",
  async start(agent) {
    const server = createServer();
    await once(server.listen(0, "127.0.0.1"), "listening");
    const activeRuns = new Set<Promise<void>>();
    const listener = new (class extends ListeningBase {
      readonly address = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
      protected async end(): Promise<void> {
        server.close();
        await Promise.all(activeRuns);
      }
    })();
    const answerPrompt = async (socket: Socket, message: string): Promise<void> => {
      const run = await agent.run({ message, signal: listener.shutdown, overflow: "merge" });
      for await (const event of run) if (event.type === "token") socket.write(event.text ?? "");
      await run.result;
    };
    server.on("connection", (socket) => {
      createInterface({ input: socket }).once("line", (line) => {
        const activeRun = answerPrompt(socket, line).then(
          () => void socket.end("\n"),
          (error) => void socket.end(String(error)),
        );
        activeRuns.add(activeRun.finally(() => activeRuns.delete(activeRun)));
      });
    });
    return listener;
  },
};

const agent = new Agent({ providers: [new OfflineProvider()] });
const listening = await linesTransport.start(agent);
const socket = connect(Number(new URL(listening.address).port), "127.0.0.1", () => socket.write("Hello\n"));
for await (const text of socket.setEncoding("utf8")) process.stdout.write(text as string);
await listening.stop(AbortSignal.timeout(1_000));
await agent.close();
