import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Console } from "./console.js";

/** Provides the state of the page to components. */
export const ConsoleContext = createContext<Console | undefined>(undefined);

/** The state of the page. Throws without a `ConsoleContext.Provider`. */
export function useConsole(): Console {
  const store = useContext(ConsoleContext);
  if (!store) throw new Error("useConsole needs a ConsoleContext.Provider");
  return store;
}
