/** Where the pages are. */
export const APP: string;

/** Make the console into a folder; what was there goes. Resolves with esbuild's metafile. */
export function buildConsole(
  outdir: string,
): Promise<{ outputs: Record<string, { bytes: number; inputs: Record<string, { bytesInOutput: number }> }> }>;
