import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { isImage, type AttachedFile } from "./attachments.js";
import { IconButton } from "./parts/button.js";
import { formatBytes } from "./parts/format.js";
import { Icon } from "./parts/icon.js";

interface ComposerFilesProps {
  files: Signal<readonly AttachedFile[]>;
  isReading: boolean;
  onRemoved: () => void;
}

/** The attached files, each with a button to remove it. */
export function ComposerFiles({ files, isReading, onRemoved }: ComposerFilesProps) {
  if (files.value.length === 0 && !isReading) return null;
  const remove = (key: number) => {
    files.value = files.value.filter((file) => file.key !== key);
    onRemoved();
  };
  return (
    <ul class="composer-files" aria-label="Attached files">
      {files.value.map((file) => (
        <li key={file.key} class="composer-file">
          {isImage(file) ? (
            <img class="composer-image" src={`data:${file.media_type};base64,${file.data}`} alt="" />
          ) : (
            <Icon name="file" />
          )}
          <bdi class="composer-name clipped" title={file.filename}>
            {file.filename}
          </bdi>
          <span class="composer-size">{formatBytes(file.size)}</span>
          <IconButton icon="x" label={`Remove ${file.filename}`} onClick={() => remove(file.key)} />
        </li>
      ))}
      {isReading && (
        <li class="composer-file">
          <span class="spinner" /> Reading…
        </li>
      )}
    </ul>
  );
}

/** Button that opens the file dialog of the browser. */
export function AttachButton({ onChosen }: { onChosen: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton icon="paperclip" label="Attach files" onClick={() => input.current?.click()} />
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={({ currentTarget }) => {
          onChosen([...(currentTarget.files ?? [])]);
          // Clear the field, so that choosing the same file again triggers a change event.
          currentTarget.value = "";
        }}
      />
    </>
  );
}
