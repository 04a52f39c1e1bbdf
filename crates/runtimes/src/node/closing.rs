//! The timer in the program that closes its inspector.
//!
//! While a session lasts, the timer is set again and again; if highwater is killed, it runs out and closes what
//! highwater had opened. At the end of the observation it is set to run out at once.
//!
//! `inspector.close()` blocks the program until the other side of each connection has answered. A stopped debugger
//! never does, so the timer waits while the port has a connection. The timer does not keep the program alive, and
//! throws nothing: an exception in a timer would end the program.

use std::time::Duration;

/// `require` exists only while the expression is evaluated. The function's name marks what it allocates as ours.
const EXPRESSION: &str = r"(function highwater() {
const inspector = require('inspector'), fs = require('fs'), timers = require('timers');
const key = Symbol.for('highwater.inspector');
function isAttached(url) {
    const port = ':' + Number(/:(\d+)\//.exec(url)[1]).toString(16).toUpperCase().padStart(4, '0');
    const isConnection = line => {
        const [, local, , state] = line.trim().split(/\s+/);
        return (state === '01' || state === '08') && local.endsWith(port);
    };
    const isIn = name => {
        try { return fs.readFileSync('/proc/self/net/' + name, 'latin1').split('\n').some(isConnection) }
        catch { return name === 'tcp' && UNREADABLE }
    };
    return isIn('tcp') || isIn('tcp6');
}
function arm(wait, next) {
    const timer = timers.setTimeout(() => {
        try {
            const url = inspector.url();
            if (url && isAttached(url)) return arm(next, Math.min(2 * next, 60000));
            delete globalThis[key];
            if (url) inspector.close();
        } catch {}
    }, wait).unref();
    Object.defineProperty(globalThis, key, { value: timer, configurable: true, enumerable: false });
}
timers.clearTimeout(globalThis[key]);
arm(WAIT, 50);
return true;
})()";

/// Closes the inspector when so much time has passed and no session is left; replaces the timer that was set before.
/// Where the program may not read its connections, it stays open.
pub fn later(wait: Duration) -> String {
    expression(wait, true)
}

/// For the end: the session has to end next.
pub fn soon() -> String {
    expression(Duration::from_millis(50), false)
}

fn expression(wait: Duration, is_attached_if_unreadable: bool) -> String {
    EXPRESSION
        .replace("WAIT", &wait.as_millis().to_string())
        .replace("UNREADABLE", &is_attached_if_unreadable.to_string())
}
