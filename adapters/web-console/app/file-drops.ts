/**
 * Accepts files that are dropped anywhere on the page. Without these listeners, the browser would navigate to the file.
 * Returns a function that removes the listeners.
 */
export function listenForDroppedFiles(
  setDragOver: (isOver: boolean) => void,
  addFiles: (files: File[]) => void,
): () => void {
  const listenerController = new AbortController();
  const { signal } = listenerController;
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  document.addEventListener(
    "dragover",
    (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setDragOver(true);
    },
    { signal },
  );
  document.addEventListener("dragleave", (event) => event.relatedTarget === null && setDragOver(false), { signal });
  document.addEventListener(
    "drop",
    (event) => {
      setDragOver(false);
      if (!hasFiles(event)) return;
      event.preventDefault();
      addFiles([...(event.dataTransfer?.files ?? [])]);
    },
    { signal },
  );
  return () => listenerController.abort();
}
