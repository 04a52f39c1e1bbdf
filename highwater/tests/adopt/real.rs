//! A real systemd: twenty instances of a template, confined as services are. The first two tests run in the gate.

use crate::container::Container;
use crate::stage::Said;

const INSTANCES: usize = 20;
const FIRST_PORT: usize = 9001;

const UNIT: &str = "[Service]
ExecStart=/srv/measured/service %i
User=nobody
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
RestrictAddressFamilies=AF_INET AF_UNIX
Restart=on-failure
StartLimitIntervalSec=0
";

const ADOPT: &str = "highwater adopt bump --library ./libbump.so --unit 'svc@*.service' \
                     --health tcp:127.0.0.1:{instance} --pause 0s \
                     --settle 100ms";

struct Fleet {
    container: Container,
}

impl Fleet {
    fn boot(instances: usize) -> Option<Fleet> {
        let container = Container::boot()?;
        let fleet = Fleet { container };
        fleet.ok(&format!(
            "cat >/etc/systemd/system/svc@.service <<'E'\n{UNIT}E"
        ));
        // What an administrator has there already.
        fleet.ok("mkdir -m 750 /etc/systemd/system/svc@9002.service.d
             printf '[Service]\\nNice=3\\n' >/etc/systemd/system/svc@9002.service.d/override.conf
             chmod 640 /etc/systemd/system/svc@9002.service.d/override.conf
             chmod 711 /srv/measured");
        let last = FIRST_PORT + instances - 1;
        fleet.ok(&format!(
            "systemctl daemon-reload; for n in $(seq {FIRST_PORT} {last}); do systemctl start svc@$n || exit 1; done"
        ));
        Some(fleet)
    }

    fn sh(&self, script: &str) -> Said {
        self.container.sh(script)
    }

    fn ok(&self, script: &str) -> String {
        self.container.ok(script)
    }

    /// Everything that a rollout may touch: kind, mode, owner, time and content.
    fn tree(&self) -> String {
        self.ok(
            "cd /; find etc usr/local -type d -printf '%p %m %U:%G\\n' | sort
             find etc usr/local ! -type d -printf '%p %y %m %U:%G %T@ %l\\n' | sort
             find etc usr/local -type f -exec sha256sum {} + | sort",
        )
    }

    /// How many main processes have the arm's library mapped, and how many units are active.
    fn running(&self) -> (usize, usize) {
        let text = self.ok(
            "for u in $(systemctl list-units --plain --no-legend 'svc@*' | awk '{print $1}'); do
                 p=$(systemctl show -p MainPID --value $u)
                 a=$(systemctl is-active $u || true)
                 if grep -q /libbump.so /proc/$p/maps 2>/dev/null; then echo arm $a; else echo not $a; fi
             done",
        );
        let with = text.lines().filter(|line| line.starts_with("arm")).count();
        (
            with,
            text.lines()
                .filter(|line| line.ends_with(" active"))
                .count(),
        )
    }

    fn stage(&self) -> serde_json::Value {
        self.sh("highwater adopt --status --json").json()["rollouts"].clone()
    }
}

#[test]
fn twenty_instances_adopt_and_go_back_byte_for_byte() {
    let Some(fleet) = Fleet::boot(INSTANCES) else {
        return;
    };
    // Names that systemd escapes, and a drop-in beside ours.
    fleet.ok(
        r"d='/etc/systemd/system/esc@a\x2db.service.d'; mkdir $d; printf '[Service]\nNice=2\n' >$d/o.conf
          printf '[Service]\nExecStart=/srv/measured/service\n' >/etc/systemd/system/esc@.service
          systemctl daemon-reload; systemctl start 'esc@a\x2db.service'",
    );
    let before = fleet.tree();
    let escaped = fleet.sh(
        "highwater adopt bump --library ./libbump.so --unit 'esc@*' --settle 0s --yes && highwater revert --yes",
    );
    assert_eq!(escaped.code, 0, "{escaped:?}");
    assert!(
        escaped.out.contains(r"esc@a\x2db.service.d/highwater.conf"),
        "{escaped:?}"
    );
    assert_eq!(fleet.tree(), before);
    let said = fleet.sh(&format!("{ADOPT} --yes --json"));
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(
        said.json()["proofs"].as_array().map(Vec::len),
        Some(INSTANCES)
    );
    assert_eq!(fleet.running(), (INSTANCES, INSTANCES));
    let environment =
        fleet.ok("tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value svc@9001)/environ");
    assert!(environment.contains("BUMP_MODE=a%b c\n"), "{environment}");
    assert_eq!(fleet.stage()[0]["running_arm"], INSTANCES);
    let back = fleet.sh("highwater revert --yes");
    assert_eq!(back.code, 0, "{back:?}");
    assert_eq!(fleet.tree(), before);
    assert_eq!(fleet.running(), (0, INSTANCES));
}

#[test]
fn one_of_twenty_never_answers_and_all_go_back() {
    let Some(fleet) = Fleet::boot(INSTANCES) else {
        return;
    };
    fleet.ok("touch /etc/never-9013");
    let before = fleet.tree();
    let untouched = fleet.ok("systemctl show -p MainPID --value svc@9014 svc@9020");
    let said = fleet.sh(&format!("{ADOPT} --timeout 3s --yes"));
    assert_eq!(said.code, 1, "{said:?}");
    let words =
        "Not adopted: svc@9013.service: not well within 3 s: 127.0.0.1:9013: Connection refused";
    assert!(said.out.contains(words), "{said:?}");
    assert!(said.out.contains("Everything is as it was."), "{said:?}");
    assert_eq!(fleet.tree(), before);
    assert_eq!(fleet.running(), (0, INSTANCES));
    assert_eq!(
        fleet.ok("systemctl show -p MainPID --value svc@9014 svc@9020"),
        untouched
    );
    assert_eq!(fleet.stage(), serde_json::json!([]));
}

#[test]
#[ignore = "boots a Debian with systemd; a hundred kills"]
fn a_hundred_kills_on_a_real_systemd() {
    use rand::{RngExt, SeedableRng};
    let Some(fleet) = Fleet::boot(4) else {
        return;
    };
    let before = fleet.tree();
    let seed = 2;
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let begun = std::time::Instant::now();
    fleet.ok(&format!("{ADOPT} --yes"));
    let whole = begun.elapsed().as_secs_f64();
    fleet.ok("highwater revert --yes");
    let mut counts = [0; 3];
    for kill in 0..100 {
        let after = whole * random.random::<f64>();
        let at = format!("seed {seed}, kill {kill} after {after:.3} s");
        // Every third kill hits the way back.
        if kill % 3 == 2 {
            fleet.ok(&format!("{ADOPT} --yes"));
            fleet.sh(&format!(
                "timeout -s KILL {:.3} highwater revert --yes",
                after * 0.7
            ));
        } else {
            fleet.sh(&format!("timeout -s KILL {after:.3} {ADOPT} --yes"));
        }
        let stage = fleet.stage();
        let state = match (
            stage[0]["stage"].as_str(),
            stage[0]["interrupted"].as_bool(),
        ) {
            (None, _) => 0,
            (Some("adopted"), _) => 1,
            (_, Some(true)) => 2,
            _ => panic!("{at}: {stage}"),
        };
        counts[state] += 1;
        match state {
            0 => {}
            1 => assert_eq!(fleet.running(), (4, 4), "{at}"),
            _ if stage[0]["stage"] == "adopting" && kill % 2 == 0 => {
                fleet.ok("highwater adopt --resume --yes");
                assert_eq!(fleet.running(), (4, 4), "{at}");
            }
            _ => {}
        }
        if state != 0 {
            fleet.ok("highwater revert --yes");
        }
        assert_eq!(fleet.tree(), before, "{at}");
        assert_eq!(fleet.running(), (0, 4), "{at}");
    }
    println!(
        "old {}, new {}, half way {}",
        counts[0], counts[1], counts[2]
    );
    assert!(
        counts[2] > 20,
        "the kills came too early or too late: {counts:?}"
    );
}

#[test]
#[ignore = "boots a Debian with systemd"]
fn what_cannot_be_adopted_is_refused_by_a_real_systemd_too() {
    let Some(fleet) = Fleet::boot(2) else {
        return;
    };
    let before = fleet.tree();
    let refused = |script: &str, words: &str| {
        let said = fleet.sh(script);
        assert_eq!(said.code, 4, "{said:?}");
        assert!(
            format!("{}{}", said.out, said.err).contains(words),
            "{words}: {said:?}"
        );
    };
    refused(
        "highwater adopt bump --library ./libbump.so --unit nothing --yes",
        "there is no unit nothing.service",
    );
    fleet.ok("systemctl mask --runtime svc@masked.service");
    refused(
        "highwater adopt bump --library ./libbump.so --unit svc@masked --yes",
        "is masked",
    );
    refused(
        "highwater adopt bump --library ./libbump.so --unit svc@9009 --yes",
        "does not run (inactive)",
    );
    refused(
        "highwater adopt bump --library ./libbump.so --unit systemd-tmpfiles-setup --yes",
        "has no main process",
    );
    fleet.ok("printf '\\n#\\n' >>/etc/systemd/system/svc@.service");
    refused(
        "highwater adopt bump --library ./libbump.so --unit svc@9001 --yes",
        "was changed on disk",
    );
    fleet.ok("sed -i '$d' /etc/systemd/system/svc@.service; sed -i '$d' /etc/systemd/system/svc@.service; systemctl daemon-reload");
    fleet.ok("mount -o bind,ro /etc /etc");
    refused(&format!("{ADOPT} --yes"), "the file system is read-only");
    fleet.ok("umount /etc");
    // A run of that user's own.
    fleet.ok("cp -a /srv/measured /srv/nobodys && chown -R 65534 /srv/nobodys");
    let nobody = "cd /srv/nobodys && setpriv --reuid=65534 --clear-groups highwater";
    refused(
        &format!("{nobody} adopt bump --library ./libbump.so --unit svc@9001 --yes"),
        "only root",
    );
    refused(&format!("{nobody} revert --yes"), "only root");
    let plan = fleet.sh(&format!(
        "{nobody} adopt bump --library ./libbump.so --unit svc@9001"
    ));
    assert!(
        plan.out.contains("Environment=\"LD_PRELOAD=") && plan.out.contains("use sudo"),
        "{plan:?}"
    );
    assert_eq!(fleet.running(), (0, 2));
    let kept = |tree: &str| -> Vec<String> {
        tree.lines()
            .filter(|line| !line.contains("svc@.service"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(kept(&fleet.tree()), kept(&before));
}

#[test]
#[ignore = "boots a Debian with systemd"]
fn the_script_does_the_same_on_a_host_without_highwater() {
    let Some(fleet) = Fleet::boot(5) else {
        return;
    };
    let before = fleet.tree();
    fleet.ok(
        "highwater adopt bump --library ./libbump.so --unit 'svc@*.service' --health 'command:sh -c \"exec 3<>/dev/null; test {instance} -gt 0\"' \
         --pause 0s --settle 1s --timeout 10s --script >/root/adopt.sh",
    );
    let said = fleet.sh("sh /root/adopt.sh adopt");
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(fleet.running(), (5, 5));
    let again = fleet.sh("sh /root/adopt.sh adopt");
    assert!(
        again.code == 4 && again.err.contains("was begun before"),
        "{again:?}"
    );
    fleet.ok("sh /root/adopt.sh revert");
    assert_eq!(fleet.tree(), before);
    assert_eq!(fleet.running(), (0, 5));
}
