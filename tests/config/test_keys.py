from __future__ import annotations

import pytest

from adsum.config.keys import KEYS, SECTIONS, Fate, nearest_key, resolve

# From the contract, section 5: every one of these must at least be accepted.
CONTRACT_KEYS = """
datacenter node_name node_id node_meta data_dir server bootstrap bootstrap_expect bind_addr client_addr
advertise_addr addresses.http addresses.https addresses.dns addresses.grpc ports.dns ports.http ports.https
ports.grpc ports.serf_lan ports.serf_wan ports.server start_join retry_join retry_interval retry_max
start_join_wan retry_join_wan rejoin_after_leave leave_on_terminate skip_leave_on_interrupt encrypt
encrypt_verify_incoming encrypt_verify_outgoing verify_incoming verify_incoming_rpc verify_incoming_https
verify_outgoing verify_server_hostname ca_file cert_file key_file acl.enabled acl.default_policy
acl.down_policy acl.token_ttl acl.policy_ttl acl.enable_token_persistence acl.tokens.default domain
alt_domain recursors dns_config.allow_stale dns_config.max_stale dns_config.node_ttl dns_config.service_ttl
dns_config.enable_truncate dns_config.only_passing dns_config.udp_answer_limit dns_config.a_record_limit
dns_config.disable_compression dns_config.recursor_timeout dns_config.use_cache dns_config.cache_max_age
dns_config.enable_additional_node_meta_txt dns_config.soa.refresh enable_script_checks
enable_local_script_checks check_update_interval check_output_max_size discard_check_output services checks
watches session_ttl_min performance.raft_multiplier performance.leave_drain_time
performance.rpc_hold_timeout limits.http_max_conns_per_client limits.kv_max_value_size
limits.txn_max_req_len limits.rpc_rate limits.rpc_max_burst limits.rpc_max_conns_per_client
limits.https_handshake_timeout raft_snapshot_threshold raft_snapshot_interval raft_trailing_logs
gossip_lan.probe_interval gossip_lan.probe_timeout gossip_lan.suspicion_mult gossip_lan.gossip_interval
gossip_lan.gossip_nodes gossip_lan.retransmit_mult gossip_wan.probe_interval reconnect_timeout
reconnect_timeout_wan advertise_reconnect_timeout autopilot.cleanup_dead_servers
autopilot.last_contact_threshold autopilot.max_trailing_logs autopilot.server_stabilization_time
autopilot.min_quorum default_query_time max_query_time discovery_max_stale translate_wan_addrs
http_config.response_headers http_config.block_endpoints http_config.allow_write_http_from
http_config.use_cache ui ui_config.enabled ui_dir ui_content_path telemetry.prometheus_retention_time
telemetry.disable_hostname telemetry.metrics_prefix telemetry.statsd_address telemetry.statsite_address
telemetry.dogstatsd_addr telemetry.dogstatsd_tags telemetry.prefix_filter telemetry.filter_default log_level
log_json log_file log_rotate_bytes log_rotate_duration log_rotate_max_files enable_syslog enable_debug
disable_remote_exec disable_update_check disable_host_node_id disable_coordinates disable_keyring_file
primary_datacenter segments connect.enabled config_entries.bootstrap
"""


def test_every_key_of_the_contract_is_known() -> None:
    assert set(CONTRACT_KEYS.split()) <= KEYS.keys()


def test_no_key_is_a_section_as_well() -> None:
    assert not SECTIONS.keys() & KEYS.keys()


def test_keys_match_in_any_case_and_with_or_without_underscores() -> None:
    assert resolve("", "DataCenter") == "datacenter"
    assert resolve("", "dataDir") == "data_dir"
    assert resolve("ports", "HTTP") == "ports.http"
    assert resolve("", "service") == "services"


@pytest.mark.parametrize(
    ("section", "key", "near"),
    [
        ("", "datacentre", "datacenter"),
        ("ports", "htp", "ports.http"),
        ("", "retry_joins", "retry_join"),
        ("", "udp_answer_limit", "dns_config.udp_answer_limit"),
        ("", "qqqq", None),
    ],
)
def test_the_nearest_key_is_a_neighbour_or_one_whose_section_was_forgotten(
    section: str, key: str, near: str | None
) -> None:
    assert nearest_key(section, key) == near


def test_what_a_protecting_key_defaults_to_protects_nothing() -> None:
    protecting = [key for key in KEYS.values() if key.fate is Fate.PROTECTS]
    assert {"auto_encrypt.tls", "acl.enabled", "acl.default_policy"} <= {key.name for key in protecting}
    assert all(key.default in (False, None, [], "allow") for key in protecting)
