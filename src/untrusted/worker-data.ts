/** The data that a thread gets at its start. */
export interface WorkerData {
  /** URL of a file of ours, from which packages are found. */
  readonly packageUrl: string;
  /** See worker-code.ts. */
  readonly files: Readonly<Record<string, string>>;
}
