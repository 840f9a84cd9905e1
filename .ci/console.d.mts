import type { Metafile } from "esbuild";

export const APP: string;
export function buildConsole(outdir: string): Promise<Metafile>;
