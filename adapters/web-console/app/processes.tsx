import "./processes.css";
import { Icon } from "./parts/icon.js";
import type { WatchedSession } from "./state/watched-session.js";

/** Running background commands of the session. Renders nothing if no command is running. */
export function Processes({ session }: { session: WatchedSession }) {
  const processes = session.processes.value;
  if (processes.length === 0) return null;
  return (
    <ul class="processes" aria-label="Background commands">
      {processes.map(({ id, command, detached }) => (
        <li key={id} class="process" title={command}>
          <Icon name="terminal" />
          <code class="process-id">{id}</code>
          <code class="clipped">{command}</code>
          {detached && (
            <span class="process-detached" title="Continues after gantry exits">
              detached
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
