import { IconButton } from "../parts/button.js";
import { Icon } from "../parts/icon.js";
import { endMessageEdit, type MessageEdit } from "./message-edit.js";

/** Says that the prompt field contains a sent message, with the choices of the edit. */
export function EditBanner({ edit }: { edit: MessageEdit }) {
  const { withFiles, force, conflicts, attachments } = edit;
  return (
    <section class="composer-edit" aria-label="Edited message">
      <div class="composer-edit-head">
        <Icon name="pencil" />
        <span>
          Sending replaces the message and everything after it.
          {attachments.length > 0 && ` Its attached files (${attachments.length}) are sent again.`}
        </span>
        <IconButton icon="x" label="Cancel the edit" onClick={endMessageEdit} />
      </div>
      <label class="composer-edit-choice">
        <input
          type="checkbox"
          checked={withFiles.value}
          onChange={(event) => (withFiles.value = event.currentTarget.checked)}
        />
        Also restore the files that changed since the message
      </label>
      {conflicts.value.length > 0 && (
        <>
          <ul class="composer-edit-files">
            {conflicts.value.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
          <label class="composer-edit-choice">
            <input
              type="checkbox"
              checked={force.value}
              onChange={(event) => (force.value = event.currentTarget.checked)}
            />
            Overwrite these files
          </label>
        </>
      )}
    </section>
  );
}
