/** Whether the name of a module in the config is a path, not a package. */
export function isModulePath(name: string): boolean {
  return /^(\.{0,2}[\\/]|file:|[A-Za-z]:[\\/])/.test(name);
}
