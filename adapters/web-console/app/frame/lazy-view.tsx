import { signal } from "@preact/signals";
import type { ComponentType, VNode } from "preact";
import { useEffect } from "preact/hooks";
import { useConsole } from "../state/context.js";

/** Creates a view whose code is requested when the view is first shown. `loadingText`: shown until then. */
export function createLazyView<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
  loadingText = "Loading…",
): (props: Props) => VNode | null {
  const loadedView = signal<ComponentType<Props> | undefined>(undefined);
  return function LazyView(props: Props) {
    const store = useConsole();
    const View = loadedView.value;
    useEffect(() => {
      if (loadedView.peek()) return;
      load().then(
        (component) => (loadedView.value = component),
        // A new build has other file names.
        () => store.notify("This part of the page cannot be loaded. Reload the page.", "error"),
      );
    }, []);
    if (View) return <View {...props} />;
    if (loadingText === "") return null;
    return (
      <p class="view-loading" role="status">
        {loadingText}
      </p>
    );
  };
}
