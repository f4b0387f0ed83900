"""The tables of all configuration keys: name, kind, default (`-` for none), and what becomes of the key.

    restart, reload   we act on it; a changed value takes a restart, or is applied by a reload
    protects          ignoring it would leave something less protected than its operator believes
    moot              we behave that way whatever it says
    warned            taken, without effect yet

Consul's own keys were asked of Consul 1.8.7: `consul validate` names every key it does not know, so each
name in its binary was offered at each level. Keys of later versions come from the contract (section 5) and
from what upstream documents. Ours are `adsum.*`, `gossip.*`, `dns_config.extra_domains`,
`dns_config.udp_answer_bytes_max` and `http_config.allowed_hosts`. A key without effect has Consul's default
here: set to that, it asks for nothing.
"""

TABLE = """
datacenter                                     text       dc1          restart
node_name                                      text       -            restart
node_id                                        text       -            restart
node_meta                                      map        {}           reload
data_dir                                       text       -            restart
pid_file                                       text       -            restart
server                                         bool       false        restart
bootstrap                                      bool       false        restart
bootstrap_expect                               integer    0            restart
leave_on_terminate                             bool       -            restart
skip_leave_on_interrupt                        bool       -            restart
bind_addr                                      text       0.0.0.0      restart
client_addr                                    text       127.0.0.1    restart
advertise_addr                                 text       -            restart
advertise_addr_wan                             text       -            restart
tagged_addresses                               map        {}           restart
addresses.dns                                  text       -            restart
addresses.http                                 text       -            restart
addresses.https                                text       -            restart
ports.dns                                      port       8600         restart
ports.http                                     port       8500         restart
ports.https                                    port       -1           restart
ports.serf_lan                                 port       8301         restart
ports.serf_wan                                 port       8302         restart
ports.server                                   port       8300         restart
unix_sockets.user                              text       -            restart
unix_sockets.group                             text       -            restart
unix_sockets.mode                              text       -            restart
translate_wan_addrs                            bool       false        moot
gossip.mode                                    text       classic      restart
gossip.refused_grace                           duration   1s           restart
gossip.push_nodes                              integer    5            restart
gossip_lan.gossip_interval                     duration   200ms        restart
gossip_lan.gossip_nodes                        integer    3            restart
gossip_lan.probe_interval                      duration   1s           restart
gossip_lan.probe_timeout                       duration   500ms        restart
gossip_lan.retransmit_mult                     integer    4            restart
gossip_lan.suspicion_mult                      integer    4            restart
reconnect_timeout                              duration   72h          restart
serf_lan                                       text       -            restart
serf_lan_allowed_cidrs                         texts      []           restart
start_join                                     texts      []           restart
retry_join                                     texts      []           restart
retry_interval                                 duration   30s          restart
retry_max                                      integer    0            restart
rejoin_after_leave                             bool       false        restart
encrypt                                        text       -            restart
encrypt_verify_incoming                        bool       true         restart
encrypt_verify_outgoing                        bool       true         restart
disable_keyring_file                           bool       false        restart
domain                                         text       consul.      restart
alt_domain                                     text       -            restart
recursors                                      texts      []           reload
dns_config.allow_stale                         bool       true         moot
dns_config.max_stale                           duration   87600h       moot
dns_config.node_ttl                            duration   0s           reload
dns_config.service_ttl                         durations  {}           reload
dns_config.enable_truncate                     bool       true         reload
dns_config.only_passing                        bool       false        reload
dns_config.udp_answer_limit                    integer    3            reload
dns_config.udp_answer_bytes_max                integer    1232         reload
dns_config.a_record_limit                      integer    0            reload
dns_config.disable_compression                 bool       false        reload
dns_config.recursor_timeout                    duration   2s           reload
dns_config.use_cache                           bool       false        moot
dns_config.cache_max_age                       duration   0s           moot
dns_config.enable_additional_node_meta_txt     bool       true         reload
dns_config.soa.refresh                         integer    3600         reload
dns_config.soa.retry                           integer    600          reload
dns_config.soa.expire                          integer    86400        reload
dns_config.soa.min_ttl                         integer    0            reload
dns_config.extra_domains                       texts      ["adsum."]   reload
http_config.response_headers                   map        {}           restart
http_config.block_endpoints                    texts      []           restart
http_config.allow_write_http_from              texts      []           restart
http_config.use_cache                          bool       true         moot
http_config.allowed_hosts                      texts      []           restart
limits.http_max_conns_per_client               integer    16384        restart
limits.https_handshake_timeout                 duration   5s           restart
limits.kv_max_value_size                       integer    524288       restart
performance.raft_multiplier                    integer    1            restart
performance.rpc_hold_timeout                   duration   7s           restart
raft_snapshot_threshold                        integer    16384        restart
raft_snapshot_interval                         duration   30s          restart
raft_trailing_logs                             integer    10240        restart
autopilot.cleanup_dead_servers                 bool       true         restart
autopilot.server_stabilization_time            duration   10s          restart
autopilot.max_trailing_logs                    integer    250          restart
autopilot.min_quorum                           integer    0            restart
ca_file                                        text       -            reload
ca_path                                        text       -            reload
cert_file                                      text       -            reload
key_file                                       text       -            reload
verify_incoming                                bool       false        reload
verify_incoming_rpc                            bool       false        reload
verify_incoming_https                          bool       false        reload
verify_outgoing                                bool       false        reload
verify_server_hostname                         bool       false        reload
tls_min_version                                text       tls12        reload
tls_cipher_suites                              text       -            reload
tls_prefer_server_cipher_suites                bool       false        reload
tls.defaults.ca_file                           text       -            reload
tls.defaults.ca_path                           text       -            reload
tls.defaults.cert_file                         text       -            reload
tls.defaults.key_file                          text       -            reload
tls.defaults.verify_incoming                   bool       false        reload
tls.defaults.verify_outgoing                   bool       false        reload
tls.defaults.verify_server_hostname            bool       false        reload
tls.defaults.tls_min_version                   text       TLSv1_2      reload
tls.defaults.tls_cipher_suites                 text       -            reload
tls.https.ca_file                              text       -            reload
tls.https.ca_path                              text       -            reload
tls.https.cert_file                            text       -            reload
tls.https.key_file                             text       -            reload
tls.https.verify_incoming                      bool       false        reload
tls.https.tls_min_version                      text       TLSv1_2      reload
tls.https.tls_cipher_suites                    text       -            reload
tls.internal_rpc.ca_file                       text       -            reload
tls.internal_rpc.ca_path                       text       -            reload
tls.internal_rpc.cert_file                     text       -            reload
tls.internal_rpc.key_file                      text       -            reload
tls.internal_rpc.verify_incoming               bool       false        reload
tls.internal_rpc.verify_outgoing               bool       false        reload
tls.internal_rpc.verify_server_hostname        bool       false        reload
tls.internal_rpc.tls_min_version               text       TLSv1_2      reload
tls.internal_rpc.tls_cipher_suites             text       -            reload
performance.leave_drain_time                   duration   5s           warned
telemetry.metrics_prefix                       text       consul       restart
telemetry.prefix_filter                        texts      []           restart
telemetry.filter_default                       bool       true         restart
log_level                                      text       INFO         reload
log_json                                       bool       false        restart
log_file                                       text       -            restart
log_rotate_duration                            duration   24h          restart
log_rotate_bytes                               integer    0            restart
log_rotate_max_files                           integer    0            restart
enable_syslog                                  bool       false        restart
syslog_facility                                text       LOCAL0       restart
enable_debug                                   bool       false        warned
ui                                             bool       false        warned
ui_content_path                                text       /ui/         warned
ui_config.enabled                              bool       false        warned
ui_config.content_path                         text       /ui/         warned
services                                       objects    []           reload
checks                                         objects    []           reload
watches                                        objects    []           reload
enable_script_checks                           bool       false        restart
enable_local_script_checks                     bool       false        restart
check_update_interval                          duration   5m           reload
check_output_max_size                          integer    4096         restart
discard_check_output                           bool       false        reload
default_query_time                             duration   300s         restart
max_query_time                                 duration   600s         restart
discovery_max_stale                            duration   0s           moot
session_ttl_min                                duration   0s           restart
session_node_grace                             duration   10s          restart
adsum.allow_unsupported                        texts      []           restart
"""

# The others, gathered by what they have in common.
WITHOUT_EFFECT = """
protects bool false: acl.enabled audit.enabled auto_config.enabled auto_encrypt.tls tls.grpc.verify_incoming
    tls.https.verify_outgoing
protects text allow: acl.default_policy acl_default_policy
protects text -: acl_datacenter
protects texts []: serf_wan_allowed_cidrs
moot bool false: telemetry.disable_per_tenancy_usage_metrics
moot bool true: enable_xds_load_balancing rpc.enable_streaming telemetry.retry_failed_connection
    use_streaming_backend
moot bool -: acl.msp_disable_bootstrap disable_anonymous_signature disable_coordinates disable_update_check
    enable_central_service_config telemetry.disable_hostname
moot duration -: ae_interval check_deregister_interval_min check_reap_interval sync_coordinate_interval_min
    telemetry.prometheus_retention_time
moot integer -: protocol raft_protocol segment_limit segment_name_limit
moot number -: sync_coordinate_rate_target
moot text -: revision version version_prerelease
warned bool false: acl.enable_key_list_policy acl.enable_token_persistence acl.enable_token_replication
    acl_enable_key_list_policy auto_config.authorization.enabled
    auto_config.authorization.static.allow_reuse auto_encrypt.allow_tls auto_reload_config
    autopilot.disable_upgrade_migration connect.enable_mesh_gateway_wan_federation
    connect.enable_serverless_plugin connect.enabled disable_http_unprintable_char_filter
    dns_config.prefer_namespace enable_acl_replication enable_agent_tls_for_checks non_voting_server
    raft_prevote_disabled read_replica telemetry.enable_host_metrics tls.grpc.use_auto_cert
    ui_config.hcp_enabled
warned bool true: disable_host_node_id disable_remote_exec
warned duration 0s: acl.role_ttl
warned duration 120s: acl.disabled_ttl acl_disabled_ttl
warned duration 168h: server_rejoin_age_max
warned duration 200ms: autopilot.last_contact_threshold
warned duration 20s: performance.grpc_keepalive_timeout
warned duration 30s: acl.policy_ttl acl.token_ttl acl_ttl performance.grpc_keepalive_interval
    primary_gateways_interval retry_interval_wan
warned duration 3s: gossip_wan.probe_timeout
warned duration 500ms: gossip_wan.gossip_interval
warned duration 5s: gossip_wan.probe_interval limits.rpc_handshake_timeout
warned duration 60s: limits.rpc_client_timeout
warned duration 72h: reconnect_timeout_wan
warned duration -: advertise_reconnect_timeout auto_config.authorization.static.clock_skew_leeway
    auto_config.authorization.static.expiration_leeway auto_config.authorization.static.not_before_leeway
    connect.test_ca_leaf_root_change_spread consul.coordinate.update_period consul.raft.election_timeout
    consul.raft.heartbeat_timeout consul.raft.leader_lease_timeout consul.server.health_interval
    telemetry.circonus_submission_interval
warned integer 0: http_config.max_header_bytes retry_max_wan
warned integer 100: limits.rpc_max_conns_per_client
warned integer 1000: limits.rpc_max_burst
warned integer 2: cache.entry_fetch_max_burst
warned integer 4: gossip_wan.gossip_nodes gossip_wan.retransmit_mult
warned integer 524288: limits.txn_max_req_len
warned integer 6: gossip_wan.suspicion_mult
warned integer -: consul.coordinate.update_batch_size consul.coordinate.update_max_batches
warned number -1: cache.entry_fetch_rate limits.rpc_rate
warned opaque -: acl.tokens.managed_service_provider audit.sink
    auto_config.authorization.static.claim_mappings auto_config.authorization.static.list_claim_mappings
    cloud config_entries.bootstrap connect.ca_config limits.request_limits locality peering raft_logstore
    reporting segments snapshot_agent ui_config.dashboard_url_templates ui_config.metrics_proxy xds
warned text TLSv1_2: tls.grpc.tls_min_version
warned text consul: connect.ca_provider
warned text extend-cache: acl.down_policy acl_down_policy
warned text sequential: dns_config.recursor_strategy
warned text -: acl.tokens.agent acl.tokens.agent_master acl.tokens.agent_recovery
    acl.tokens.config_file_service_registration acl.tokens.default acl.tokens.dns
    acl.tokens.initial_management acl.tokens.master acl.tokens.replication acl_agent_master_token
    acl_agent_token acl_master_token acl_replication_token acl_token addresses.grpc addresses.grpc_tls
    advertise_addr_ipv4 advertise_addr_ipv6 advertise_addr_wan_ipv4
    auto_config.authorization.static.bound_issuer auto_config.authorization.static.jwks_ca_cert
    auto_config.authorization.static.jwks_url auto_config.authorization.static.oidc_discovery_ca_cert
    auto_config.authorization.static.oidc_discovery_url auto_config.intro_token auto_config.intro_token_file
    autopilot.redundancy_zone_tag autopilot.upgrade_version_tag default_intention_policy license_path
    partition primary_datacenter segment serf_wan server_name telemetry.circonus_api_app
    telemetry.circonus_api_token telemetry.circonus_api_url telemetry.circonus_broker_id
    telemetry.circonus_broker_select_tag telemetry.circonus_check_display_name
    telemetry.circonus_check_force_metric_activation telemetry.circonus_check_id
    telemetry.circonus_check_instance_id telemetry.circonus_check_search_tag telemetry.circonus_check_tags
    telemetry.circonus_submission_url telemetry.dogstatsd_addr telemetry.statsd_address
    telemetry.statsite_address tls.grpc.ca_file tls.grpc.ca_path tls.grpc.cert_file tls.grpc.key_file
    tls.grpc.tls_cipher_suites ui_config.dir ui_config.metrics_provider
    ui_config.metrics_provider_options_json ui_dir
warned port -1: ports.grpc ports.grpc_tls
warned port 20000: ports.proxy_min_port
warned port 20255: ports.proxy_max_port
warned port 21000: ports.sidecar_min_port
warned port 21255: ports.sidecar_max_port
warned port 21500: ports.expose_min_port
warned port 21755: ports.expose_max_port
warned texts []: auto_config.authorization.static.bound_audiences
    auto_config.authorization.static.claim_assertions auto_config.authorization.static.jwt_supported_algs
    auto_config.authorization.static.jwt_validation_pub_keys auto_config.dns_sans auto_config.ip_sans
    auto_config.server_addresses auto_encrypt.dns_san auto_encrypt.ip_san experiments primary_gateways
    retry_join_wan start_join_wan telemetry.dogstatsd_tags ui_config.metrics_provider_files
"""

# A service's and a check's own keys; `catalog.decode` knows their types.
SERVICE_KEYS = """
id name kind tags address port meta tagged_addresses weights enable_tag_override token proxy connect check
checks namespace partition locality
"""
CHECK_KEYS = """
check_id id name notes service_id status token args script_args script docker_container_id shell http
method header body disable_redirects tcp tcp_use_tls udp grpc grpc_use_tls h2ping h2ping_use_tls
os_service tls_skip_verify tls_server_name alias_service alias_node interval timeout ttl
success_before_passing failures_before_warning failures_before_critical deregister_critical_service_after
output_max_size namespace partition
"""
WATCH_KEYS = """
type key prefix service tag passingonly state name filter datacenter stale token handler_type handler args
http_handler_config
"""
HTTP_HANDLER_KEYS = "path method header timeout tls_skip_verify"
