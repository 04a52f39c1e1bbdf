//! A plan as plain shell for a host without highwater: the steps, the proof and the way back in one file.

use std::collections::BTreeMap;

use super::dropin::{self, PRELOAD, SettingError};
use super::files::sha256;
use super::health::{COMMAND_MAX, COMMAND_MIN, Health};
use super::pattern::{is_template, template_prefix};
use super::plan::Request;

const TEMPLATE: &str = include_str!("adopt.sh");

/// The script. Units are looked up where it runs; libraries are named by their sha256.
///
/// # Errors
/// An environment that systemd cannot hold, in words.
pub fn render(request: &Request, id: &str) -> Result<String, SettingError> {
    let mut environment = request.environment.clone();
    let targets: Vec<String> = request
        .libraries
        .iter()
        .map(|s| s.to.display().to_string())
        .collect();
    if !targets.is_empty() {
        environment.insert(PRELOAD.to_owned(), targets.join(":"));
    }
    if environment.is_empty() {
        return Err(SettingError::Nothing(request.arm.clone()));
    }
    let text = dropin::text(&request.told, &environment)?;
    let names = request
        .libraries
        .iter()
        .map(|source| source.from.display().to_string());
    let library_words = match request.libraries.len() {
        0 => "none".to_owned(),
        _ => format!(
            "copies of {}, in this order",
            names.collect::<Vec<_>>().join(", ")
        ),
    };
    let about = format!("Arm {} of run {}.", request.arm, request.run);
    let filled = [
        ("@ABOUT@", plain(&about)),
        ("@LIBRARY_WORDS@", plain(&library_words)),
        ("@ID@", id.to_owned()),
        ("@TEXT_SHA256@", sha256(text.as_bytes())),
        ("@TEXT@", text),
        ("@HEALTH_S@", whole(request.timing.health_s)),
        ("@TRY_MIN_S@", COMMAND_MIN.as_secs().to_string()),
        ("@TRY_MAX_S@", COMMAND_MAX.as_secs().to_string()),
        ("@SETTLE_S@", whole(request.timing.settle_s)),
        ("@PAUSE_S@", whole(request.timing.pause_s)),
        ("@PATTERNS@", patterns(&request.patterns)),
        ("@OWNER@", owner(&request.patterns)),
        ("@HEALTH@", health(&request.health)),
        ("@TOOL_CHECK@", tool_check(&request.health)),
        ("@PROOF@", proof(&targets, &environment)),
        ("@VARIABLES@", variables(&environment)),
        ("@ARM@", plain(&request.arm)),
        ("@LIBRARY_CHECK@", library_check(request)),
        ("@LIBRARY_PUT@", library_put(request)),
    ];
    Ok(fill(TEMPLATE, &filled))
}

/// One pass, so that a value that looks like a marker stays a value.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('@') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(marker, _)| rest.starts_with(marker)) {
            Some((marker, value)) => {
                out.push_str(value);
                rest = &rest[marker.len()..];
            }
            None => {
                out.push('@');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

/// For a comment, or between double quotes.
fn plain(text: &str) -> String {
    let fine = |c: &char| !c.is_control() && !"\"'`$\\".contains(*c);
    text.chars().filter(fine).collect()
}

fn whole(seconds: f64) -> String {
    format!("{:.0}", seconds.max(0.0).ceil())
}

fn quoted(text: &str) -> String {
    // A NUL cannot stand in an argument; nobody can have typed one.
    shlex::try_quote(text).map_or_else(|_| "''".to_owned(), |quoted| quoted.into_owned())
}

fn patterns(patterns: &[String]) -> String {
    let loaded = patterns
        .iter()
        .map(|pattern| match template_prefix(pattern) {
            Some(prefix) if is_template(pattern) => format!("{prefix}*.service"),
            _ => pattern.clone(),
        });
    loaded
        .map(|pattern| quoted(&pattern))
        .collect::<Vec<_>>()
        .join(" ")
}

fn owner(patterns: &[String]) -> String {
    let mut cases = String::from("    case $1 in\n");
    for template in patterns.iter().filter(|pattern| is_template(pattern)) {
        let prefix = quoted(template_prefix(template).unwrap_or_default());
        cases.push_str(&format!("    {prefix}*) say {} ;;\n", quoted(template)));
    }
    cases + "    *) say \"$1\" ;;\n    esac"
}

/// Words of the check, with the instance's own values by the shell's variables.
fn with_variables(text: &str) -> String {
    let quoted = quoted(text);
    let quoted = if quoted.starts_with(['\'', '"']) || !text.contains('{') {
        quoted
    } else {
        format!("'{quoted}'")
    };
    let mark = if quoted.starts_with('"') { '"' } else { '\'' };
    let variable = |name: &str| format!("{mark}\"${name}\"{mark}");
    let names = [
        ("{instance}", "instance"),
        ("{unit}", "unit"),
        ("{pid}", "pid"),
    ];
    names.iter().fold(quoted, |text, (word, name)| {
        text.replace(word, &variable(name))
    })
}

fn health(health: &Health) -> String {
    match health {
        Health::None => "    :".to_owned(),
        Health::Http(url) => {
            let url = with_variables(url);
            format!(
                "    [ \"$(curl -s -o /dev/null -w '%{{http_code}}' --max-time 2 --noproxy '*' {url})\" = 200 ]"
            )
        }
        Health::Tcp(address) => {
            let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
            let (host, port) = (host.trim_matches(['[', ']']), port);
            format!(
                "    within nc -z -w 2 {} {}",
                with_variables(host),
                with_variables(port)
            )
        }
        Health::Command(words) => {
            let words: Vec<String> = words.iter().map(|word| with_variables(word)).collect();
            format!("    within {}", words.join(" "))
        }
    }
}

/// The program that asks for health must be there before anything is restarted.
fn tool_check(health: &Health) -> String {
    let tool = match health {
        Health::None => return "    :".to_owned(),
        Health::Http(_) => "curl",
        Health::Tcp(_) => "nc",
        Health::Command(words) => match words.first() {
            Some(word) if !word.contains('{') => word,
            _ => return "    :".to_owned(),
        },
    };
    let tool = quoted(tool);
    format!(
        "    command -v {tool} >/dev/null || refuse 'its health check needs '{tool}', which is not here'"
    )
}

/// Libraries are in the process's map, and variables in its environment. A program that has written over that (to show
/// a title in ps) says nothing by it: what systemd sets for each service is not there either.
fn proof(targets: &[String], environment: &BTreeMap<String, String>) -> String {
    let library = |target: &String| {
        let target = quoted(target);
        let refused = refused("it does not map", &target);
        format!("    grep -qF -- \"$root\"{target} \"/proc/$1/maps\" || {refused}")
    };
    let variable = |(name, value): (&String, &String)| {
        let pair = quoted(&format!("{name}={value}"));
        let refused = refused("it was not started with", &pair);
        format!("    say \"$environ\" | grep -qxF -- {pair} || {refused}")
    };
    let libraries = targets.iter().map(library);
    let variables = environment.iter().filter(|(name, _)| *name != PRELOAD);
    let environ = [
        "    environ=$(tr '\\0' '\\n' <\"/proc/$1/environ\") || return 1",
        "    case $environ in *INVOCATION_ID=*) ;; *) return 0 ;; esac",
    ];
    let lines = libraries
        .chain(environ.map(str::to_owned))
        .chain(variables.map(variable));
    lines.collect::<Vec<_>>().join("\n")
}

fn refused(words: &str, what: &str) -> String {
    format!("{{ why=\", {words} \"{what}; return 1; }}")
}

fn variables(environment: &BTreeMap<String, String>) -> String {
    let cases: Vec<String> = environment
        .keys()
        .map(|name| format!("*' {name}='*"))
        .collect();
    cases.join(" | ")
}

fn library_check(request: &Request) -> String {
    let mut lines = Vec::new();
    for (n, source) in request.libraries.iter().enumerate() {
        let (from, to) = (
            quoted(&source.from.display().to_string()),
            quoted(&source.to.display().to_string()),
        );
        lines.push(format!("    library{n}=${{{}:-{from}}}", n + 1));
        lines.push(format!(
            "    [ ! -e \"$root\"{to} ] || library{n}=$root{to}"
        ));
        lines.push(format!("    [ -r \"$library{n}\" ] || refuse \"there is no library $library{n}; give its path\""));
        lines.push(format!(
            "    [ \"$(digest \"$library{n}\")\" = {} ] || refuse \"$library{n} is not the library that was measured\"",
            source.sha256
        ));
    }
    lines.join("\n")
}

fn library_put(request: &Request) -> String {
    let mut lines = vec!["    :".to_owned()];
    for (n, source) in request.libraries.iter().enumerate() {
        let to = quoted(&source.to.display().to_string());
        lines.push(format!("    if [ ! -e \"$root\"{to} ]; then"));
        lines.push(format!(
            "        folder \"$(dirname \"$root\"{to})\" || return 1"
        ));
        lines.push(format!(
            "        put \"$library{n}\" \"$root\"{to} 755 || return 1"
        ));
        lines.push("    fi".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_words_of_the_shell() {
        assert_eq!(with_variables("{instance}"), "''\"$instance\"''");
        assert_eq!(
            with_variables("http://h:9{instance}/x?a=b&c=$d"),
            "'http://h:9'\"$instance\"'/x?a=b&c=$d'"
        );
        assert_eq!(with_variables("plain"), "plain");
        assert_eq!(
            fill(
                "a @X@ b@c @Y@",
                &[("@X@", "@Y@".into()), ("@Y@", "1".into())]
            ),
            "a @Y@ b@c 1"
        );
        assert_eq!(plain("a`b$c\n\"d\\"), "abcd");
    }
}
