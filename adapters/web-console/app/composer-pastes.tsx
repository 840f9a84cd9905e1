import { IconButton } from "./parts/button.js";
import { formatBytes } from "./parts/format.js";
import { Icon } from "./parts/icon.js";
import { listPastes, type PastedText } from "./state/pasted-texts.js";

interface ComposerPastesProps {
  sessionId: string;
  draft: string;
  setDraft: (draft: string) => void;
  /** Called after a paste was expanded or removed. */
  onChanged: () => void;
}

/** The folded texts of the draft. Each can be expanded in the field, or removed. */
export function ComposerPastes({ sessionId, draft, setDraft, onChanged }: ComposerPastesProps) {
  const pastes = listPastes(sessionId, draft);
  if (pastes.length === 0) return null;
  const replace = ({ marker }: PastedText, text: string) => {
    setDraft(draft.replaceAll(marker, () => text));
    onChanged();
  };
  return (
    <ul class="composer-files" aria-label="Pasted texts">
      {pastes.map((paste) => {
        const label = paste.marker.slice(1, -1);
        return (
          <li key={paste.marker} class="composer-file">
            <Icon name="copy" />
            <span class="composer-name clipped">{label}</span>
            <span class="composer-size">{formatBytes(paste.text.length)}</span>
            <button
              type="button"
              class="button quiet"
              aria-label={`Expand ${label}`}
              onClick={() => replace(paste, paste.text)}
            >
              Expand
            </button>
            <IconButton icon="x" label={`Remove ${label}`} onClick={() => replace(paste, "")} />
          </li>
        );
      })}
    </ul>
  );
}
