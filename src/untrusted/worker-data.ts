/** The data that a thread receives at its start. */
export interface WorkerData {
  /** URL of a file of this package, from which packages are resolved. */
  readonly packageUrl: string;
  /** The bundled files of the worker, by import name; empty if the worker runs from its sources. */
  readonly files: Readonly<Record<string, string>>;
}
