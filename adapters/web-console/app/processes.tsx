import "./processes.css";
import { Icon } from "./parts/icon.js";
import type { OpenSession } from "./state/open-session.js";

/** The commands that go on in the background of the session; nothing where there is none. */
export function Processes({ session }: { session: OpenSession }) {
  const processes = session.processes.value;
  if (processes.length === 0) return null;
  return (
    <ul class="processes" aria-label="In the background">
      {processes.map(({ id, command, detached: keep }) => (
        <li key={id} class="process" title={command}>
          <Icon name="terminal" />
          <code class="process-id">{id}</code>
          <code class="clipped">{command}</code>
          {keep && (
            <span class="process-keep" title="It goes on when gantry ends">
              kept
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
