import { IconButton } from "../parts/button.js";
import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";

/** Recent notices and errors. */
export function Notices() {
  const store = useConsole();
  return (
    <div class="notices" role="status">
      {store.notices.value.map(({ id, kind, text }) => (
        <div key={id} class={`notice ${kind}`}>
          <Icon name={kind === "error" ? "warning" : "check"} />
          <span>{text}</span>
          <IconButton icon="x" label="Close" onClick={() => store.dismiss(id)} />
        </div>
      ))}
    </div>
  );
}
