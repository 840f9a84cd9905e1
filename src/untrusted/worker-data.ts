/** The data that a thread receives at its start. */
export interface WorkerData {
  /** URL of a file of this package, from which packages are resolved. */
  readonly packageUrl: string;
  /** See worker-code.ts. */
  readonly files: Readonly<Record<string, string>>;
}
