import { signal, type ReadonlySignal } from "@preact/signals";

const STORAGE_KEY = "gantry.notifications";

/** `blocked`: the browser refuses notifications of this page. `unsupported`: the browser or the address has none. */
export type NotificationChoice = "on" | "off" | "blocked" | "unsupported";

const choice = signal(readChoice());
addEventListener("storage", ({ key }) => {
  if (key === STORAGE_KEY) choice.value = readChoice();
});

/** Whether this browser shows desktop notifications of the console. All windows of the browser share the choice. */
export const notificationChoice: ReadonlySignal<NotificationChoice> = choice;

/** Turns desktop notifications on, or off. Turning on requests the permission of the browser. */
export async function setNotifications(isOn: boolean): Promise<void> {
  if (isOn) await Notification.requestPermission();
  localStorage.setItem(STORAGE_KEY, isOn ? "on" : "off");
  choice.value = readChoice();
}

function readChoice(): NotificationChoice {
  // Browsers have no notifications on plain HTTP, except on loopback.
  if (!("Notification" in window) || !isSecureContext) return "unsupported";
  if (Notification.permission === "denied") return "blocked";
  return Notification.permission === "granted" && localStorage.getItem(STORAGE_KEY) === "on" ? "on" : "off";
}
