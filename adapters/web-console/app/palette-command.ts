/** An entry of the command palette. */
export interface PaletteCommand {
  id: string;
  label: string;
  /** Kind of the entry, or its key. */
  note: string;
  run: () => void;
}
