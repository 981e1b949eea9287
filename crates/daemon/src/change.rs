//! Changes of a running daemon.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pliant_net::bundle::NodeChange;
use pliant_net::clock::time_of_day;
use tokio::net::TcpListener;

use crate::config::{Config, ConfigError, Door, Listen, ObjectsConfig};
use crate::doors;
use crate::shared::{OpenDoor, Shared};

/// How often the time of day is read.
const SCHEDULE_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the file again and follows it from now on. No connection ends because of this. If the file has a mistake, or a
/// change that needs a restart, nothing changes.
pub(crate) async fn reload(shared: &Arc<Shared>) -> Result<(), ConfigError> {
    let path = shared.config().path.clone();
    let mut config = Config::read(&path)?;
    let _one = shared.changing.lock().await;
    let old = shared.config().clone();
    if shared.is_draining() {
        return Err(config.wrong_line(1, "the daemon drains, and takes no configuration any more".to_owned()));
    }
    if config.listen.address != old.listen.address {
        return Err(config.wrong_line(config.listen.line, "a change of `listen` needs a restart".to_owned()));
    }
    if let Some(control) = old.control {
        config.set_default_control(control.clone());
        if config.control.as_ref() != Some(&control) {
            return Err(config.wrong_line(config.control_line, "a change of `control` needs a restart".to_owned()));
        }
    }
    let (now, then) = (config.kafka_ledger.as_ref(), old.kafka_ledger.as_ref());
    if now.map(|ledger| &ledger.path) != then.map(|ledger| &ledger.path) {
        let line = now.map_or(1, |ledger| ledger.line);
        return Err(config.wrong_line(line, "a change of `exit.kafka_ledger` needs a restart".to_owned()));
    }
    let (now, then) = (config.preload.as_ref(), old.preload.as_ref());
    if now.map(|preload| &preload.socket) != then.map(|preload| &preload.socket) {
        let line = now.map_or(1, |preload| preload.line);
        return Err(config.wrong_line(line, "a change of `preload.socket` needs a restart".to_owned()));
    }
    let same =
        |objects: &ObjectsConfig| ObjectsConfig { listen: Listen { line: 0, ..objects.listen }, ..objects.clone() };
    if config.objects.as_ref().map(same) != old.objects.as_ref().map(same) {
        let line = config.objects.as_ref().map_or(1, |objects| objects.listen.line);
        return Err(config.wrong_line(line, "a change of `objects` needs a restart".to_owned()));
    }
    let mut before: Vec<Arc<OpenDoor>> = shared.doors().clone();
    let mut after = Vec::new();
    for door in &config.doors {
        let same = before.iter().position(|open| open.door().listen.address == door.listen.address);
        after.push(match same {
            Some(at) => Ok(before.remove(at)),
            None => Err(bind(&config, door).await?),
        });
    }
    change_node(shared, &config)?;
    // Nothing fails from here on.
    let doors = config.doors.iter().cloned().zip(after).map(|(door, known)| match known {
        Ok(open) => {
            open.set_door(door);
            open
        }
        Err(listener) => open(door, listener, shared),
    });
    *shared.doors() = doors.collect();
    for gone in before {
        gone.close();
    }
    shared.set_exit(&config);
    change_objects(shared, &config);
    *shared.config() = config;
    Ok(())
}

/// Sets keys of a class until the file is read again. If there is no such class, or the result would not be valid,
/// nothing changes.
pub(crate) async fn set_class(shared: &Shared, name: &str, settings: &BTreeMap<String, String>) -> Result<(), String> {
    let _one = shared.changing.lock().await;
    let mut config = shared.config().clone();
    config.set_class(name, settings)?;
    change_node(shared, &config).map_err(|error| error.to_string())?;
    change_objects(shared, &config);
    *shared.config() = config;
    Ok(())
}

fn change_objects(shared: &Shared, config: &Config) {
    if let Some(objects) = &shared.objects {
        objects.change(config);
    }
}

/// Gives the node the classes of each time of day, without end.
pub(crate) async fn follow_schedules(shared: Arc<Shared>) {
    let contracts = |config: &Config| -> Vec<_> {
        config.classes_at(time_of_day()).iter().map(|class| class.flow.contract).collect()
    };
    let mut before = contracts(&shared.config());
    loop {
        tokio::time::sleep(SCHEDULE_INTERVAL).await;
        let _one = shared.changing.lock().await;
        let config = shared.config().clone();
        let now = contracts(&config);
        // What a user has changed is with the node already, and comes to the same there.
        if now != before && change_node(&shared, &config).is_ok() {
            before = now;
        }
    }
}

fn change_node(shared: &Shared, config: &Config) -> Result<(), ConfigError> {
    let classes = config.classes_at(time_of_day());
    let Config { keys, called, .. } = config.clone();
    let changed = shared.node.change(NodeChange { classes, keys, called });
    changed.map_err(|error| config.wrong_line(config.key_line, error.to_string()))
}

/// Listens for a door.
pub(crate) async fn bind(config: &Config, door: &Door) -> Result<TcpListener, ConfigError> {
    TcpListener::bind(door.listen.address).await.map_err(|error| config.cannot_listen(&door.listen, &error))
}

/// Begins to serve a door.
pub(crate) fn open(door: Door, listener: TcpListener, shared: &Arc<Shared>) -> Arc<OpenDoor> {
    let local = listener.local_addr().unwrap_or(door.listen.address);
    let open = OpenDoor::new(door, local);
    open.set_task(tokio::spawn(doors::serve(listener, open.clone(), shared.clone())).abort_handle());
    open
}
