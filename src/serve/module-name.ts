/** Whether a module's name is a path. Otherwise it is a package. */
export function isPath(name: string): boolean {
  return /^(\.{0,2}[\\/]|file:|[A-Za-z]:[\\/])/.test(name);
}
